// The runtime library as a launcher sees it. Work on a stream is done when the program waits for it, so that one that
// forgets to wait sees old data; a kernel's fault comes out there, and the device is unusable after that until a reset.

#include "acl/acl.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "machine.hpp"

namespace {

using ascsim::Allocation;
using ascsim::Entry;

struct Stream {
    std::vector<std::function<aclError()>> work;
};

struct Binary {
    void* library = nullptr;
    const Entry* entries = nullptr;
    int count = 0, arch = 2201;
    int file = -1;  // open as long as the library is loaded: the loader tells libraries apart by their names
    Binary() = default;
    Binary(const Binary&) = delete;
    ~Binary() {
        if (library != nullptr) dlclose(library);
        if (file >= 0) close(file);
    }
};

struct Event {
    std::chrono::steady_clock::time_point time;
};

struct Device {
    std::recursive_mutex lock;
    bool initialised = false, broken = false;
    int current = -1;
    uint64_t launches = 0;
    std::string remarks;
    aclError breakage = ACL_SUCCESS;
    std::map<uint64_t, std::unique_ptr<Allocation>> memory;
    std::map<Stream*, std::unique_ptr<Stream>> streams;
    std::map<Binary*, std::unique_ptr<Binary>> binaries;
    Stream standard;
};

Device& device() {
    static Device the_device;
    return the_device;
}

thread_local std::string the_message;

aclError fail(aclError code, const std::string& what) {
    the_message = what;
    return code;
}

using Guard = std::lock_guard<std::recursive_mutex>;

aclError ready() {
    if (!device().initialised) return fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    if (device().current < 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called");
    if (device().broken) return fail(device().breakage, "the device stopped at a kernel's fault; aclrtResetDevice is needed");
    return ACL_SUCCESS;
}

int arch() {
    const char* name = std::getenv("ASCSIM_ARCH");
    return name != nullptr ? std::atoi(name) : 2201;
}

int arch_of(const Entry* entry) {
    for (const auto& [key, binary] : device().binaries)
        if (entry >= binary->entries && entry < binary->entries + binary->count) return binary->arch;
    return arch();
}

uint64_t seed() {
    const char* text = std::getenv("ASCSIM_SEED");
    return (text != nullptr ? std::strtoull(text, nullptr, 10) : 1) + 7919 * device().launches++;
}

aclError drain(Stream& stream) {
    std::vector<std::function<aclError()>> work;
    work.swap(stream.work);
    for (auto& task : work)
        if (const aclError error = task(); error != ACL_SUCCESS) {
            device().broken = true, device().breakage = error;
            return error;
        }
    return ACL_SUCCESS;
}

Stream& stream_of(aclrtStream stream) { return stream == nullptr ? device().standard : *static_cast<Stream*>(stream); }

bool holds(const void* at, size_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(at);
    const Allocation* found = ascsim::allocation_at(address);
    return found != nullptr && address + bytes <= found->address + found->bytes;
}

aclError copy(void* dst, size_t most, const void* src, size_t count, aclrtMemcpyKind kind) {
    if (count > most) return fail(ACL_ERROR_INVALID_PARAM, "more bytes are to be copied than the destination has");
    const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    if (count != 0 && ((from_device && !holds(src, count)) || (to_device && !holds(dst, count))))
        return fail(ACL_ERROR_RT_PARAM_INVALID, "the range does not lie in device memory that was allocated");
    std::memmove(dst, src, count);
    return ACL_SUCCESS;
}

// What the caller says that a binary is for is believed on hardware; what runs is anybody's guess if it is wrong.
bool fits(const Binary& binary, const aclrtBinaryLoadOptions* options) {
    constexpr uint32_t kMagic[] = {0x41494343, 0x41415246, 0x43554245};  // cube, vector, both
    for (size_t i = 0; options != nullptr && i < options->numOpt; ++i)
        for (int k = 0; k < binary.count && options->options[i].type == ACL_RT_BINARY_LOAD_OPT_MAGIC; ++k)
            if (options->options[i].value.magic != kMagic[binary.entries[k].kind]) return false;
    return true;
}

aclError load(const void* data, size_t bytes, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    auto binary = std::make_unique<Binary>();
    binary->file = memfd_create("kernel", MFD_CLOEXEC);
    if (binary->file < 0 || write(binary->file, data, bytes) != static_cast<ssize_t>(bytes))
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory for the binary");
    const std::string path = "/proc/self/fd/" + std::to_string(binary->file);
    binary->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (binary->library == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string("this is no kernel binary: ") + dlerror());
    binary->entries = static_cast<const Entry*>(dlsym(binary->library, "ascsim_entries"));
    const auto* count = static_cast<const int*>(dlsym(binary->library, "ascsim_entry_count"));
    if (binary->entries == nullptr || count == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the binary has no kernels in it");
    const auto* number = static_cast<const int*>(dlsym(binary->library, "ascsim_arch_number"));
    binary->count = *count, binary->arch = number != nullptr ? *number : arch();
    if (!fits(*binary, options)) return fail(ACL_ERROR_RT_PARAM_INVALID, "the binary is for another kind of cores than its magic number says");
    *handle = binary.get();
    device().binaries[binary.get()] = std::move(binary);
    return ACL_SUCCESS;
}

}  // namespace

namespace ascsim {

Allocation* allocation_at(uint64_t address) {
    auto& memory = device().memory;
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) return nullptr;
    Allocation& found = *std::prev(after)->second;
    return address < found.address + found.bytes ? &found : nullptr;
}

}  // namespace ascsim

aclError aclInit(const char*) {
    const Guard guard(device().lock);
    if (device().initialised) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called twice");
    device().initialised = true;
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    const Guard guard(device().lock);
    if (!device().initialised) return fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    device().initialised = false, device().current = -1, device().broken = false;
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t id) {
    const Guard guard(device().lock);
    if (!device().initialised) return fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    if (id != 0) return fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is one simulated device, number 0");
    device().current = id;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t id) {
    const Guard guard(device().lock);
    if (id != 0) return fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is one simulated device, number 0");
    device().streams.clear(), device().standard.work.clear(), device().binaries.clear();
    for (auto& [at, allocation] : device().memory) std::free(reinterpret_cast<void*>(at));
    device().memory.clear();
    device().broken = false, device().current = -1, device().remarks.clear();
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* id) {
    *id = device().current;
    return device().current < 0 ? ACL_ERROR_RT_CONTEXT_NULL : ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) { return *count = 1, ACL_SUCCESS; }

aclError aclrtCreateStream(aclrtStream* stream) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    auto made = std::make_unique<Stream>();
    *stream = made.get();
    device().streams[made.get()] = std::move(made);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream) {
    const Guard guard(device().lock);
    if (device().streams.erase(static_cast<Stream*>(stream)) == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "there is no such stream");
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    return drain(stream_of(stream));
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) { return aclrtSynchronizeStream(stream); }

aclError aclrtSynchronizeDevice(void) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    aclError first = drain(device().standard);
    for (auto& [key, stream] : device().streams)
        if (const aclError error = drain(*stream); first == ACL_SUCCESS) first = error;
    return first;
}

aclError aclrtMalloc(void** at, size_t bytes, aclrtMemMallocPolicy) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    if (bytes == 0) return fail(ACL_ERROR_INVALID_PARAM, "no bytes are asked for");
    constexpr size_t kAlignment = 512;
    void* made = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (made == nullptr) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the machine has no memory left");
    std::memset(made, 0xA5, bytes);  // nobody may rely on zeros
    auto allocation = std::make_unique<Allocation>();
    allocation->address = reinterpret_cast<uint64_t>(made), allocation->bytes = bytes;
    device().memory[allocation->address] = std::move(allocation);
    *at = made;
    return ACL_SUCCESS;
}

aclError aclrtFree(void* at) {
    const Guard guard(device().lock);
    if (device().memory.erase(reinterpret_cast<uint64_t>(at)) == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "this memory was not allocated, or freed already");
    std::free(at);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void** at, size_t bytes) {
    *at = std::malloc(bytes);
    return *at != nullptr ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

aclError aclrtFreeHost(void* at) {
    std::free(at);
    return ACL_SUCCESS;
}

aclError aclrtMemset(void* at, size_t most, int32_t value, size_t count) {
    const Guard guard(device().lock);
    if (count > most || !holds(at, count)) return fail(ACL_ERROR_RT_PARAM_INVALID, "the range does not lie in device memory that was allocated");
    std::memset(at, value, count);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* dst, size_t most, const void* src, size_t count, aclrtMemcpyKind kind) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    return copy(dst, most, src, count, kind);
}

aclError aclrtMemcpyAsync(void* dst, size_t most, const void* src, size_t count, aclrtMemcpyKind kind, aclrtStream stream) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    stream_of(stream).work.push_back([=] { return copy(dst, most, src, count, kind); });
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) {
    *event = new Event{};
    return ACL_SUCCESS;
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    delete static_cast<Event*>(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    stream_of(stream).work.push_back([event] {
        static_cast<Event*>(event)->time = std::chrono::steady_clock::now();
        return ACL_SUCCESS;
    });
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream, aclrtEvent) { return aclrtSynchronizeDevice(); }

aclError aclrtSynchronizeEvent(aclrtEvent) { return aclrtSynchronizeDevice(); }

aclError aclrtEventElapsedTime(float* ms, aclrtEvent first, aclrtEvent last) {
    const std::chrono::duration<float, std::milli> passed = static_cast<Event*>(last)->time - static_cast<Event*>(first)->time;
    *ms = passed.count();
    return ACL_SUCCESS;
}

aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    std::FILE* file = std::fopen(path, "rb");
    if (file == nullptr) return fail(ACL_ERROR_INVALID_PARAM, std::string("there is no file ") + path);
    std::vector<char> data;
    char part[1 << 16];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) data.insert(data.end(), part, part + n);
    std::fclose(file);
    return load(data.data(), data.size(), options, handle);
}

aclError aclrtBinaryLoadFromData(const void* data, size_t bytes, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    return load(data, bytes, options, handle);
}

aclError aclrtBinaryUnLoad(aclrtBinHandle handle) {
    const Guard guard(device().lock);
    if (device().binaries.erase(static_cast<Binary*>(handle)) == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "there is no such binary");
    return ACL_SUCCESS;
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name, aclrtFuncHandle* function) {
    const auto* binary = static_cast<const Binary*>(handle);
    for (int i = 0; i < binary->count; ++i)
        if (std::strcmp(binary->entries[i].name, name) == 0) {
            *function = const_cast<Entry*>(&binary->entries[i]);
            return ACL_SUCCESS;
        }
    return fail(ACL_ERROR_RT_PARAM_INVALID, std::string("the binary has no kernel ") + name);
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg*, void* args, size_t bytes,
                                       aclrtPlaceHolderInfo*, size_t) {
    const Guard guard(device().lock);
    if (const aclError error = ready()) return error;
    const auto* entry = static_cast<const Entry*>(function);
    if (blocks == 0 || blocks > 65535) return fail(ACL_ERROR_RT_PARAM_INVALID, "a launch has 1 to 65535 blocks");
    if (bytes < entry->args_bytes)
        return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(entry->name) + " takes " + std::to_string(entry->args_bytes) + " bytes of arguments, not " + std::to_string(bytes));
    std::vector<uint8_t> packed(static_cast<const uint8_t*>(args), static_cast<const uint8_t*>(args) + bytes);
    stream_of(stream).work.push_back([entry, blocks, packed, number = arch_of(entry)] {
        ascsim::Launch launch(*entry, blocks, number, seed());
        const std::string fault = launch.run(packed.data());
        for (const auto& remark : launch.remarks()) device().remarks += remark + "\n";
        if (fault.empty()) return static_cast<aclError>(ACL_SUCCESS);
        return fail(entry->kind == 1 ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION : ACL_ERROR_RT_AICORE_EXCEPTION, fault);
    });
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr attr, int64_t* value) {
    switch (attr) {
        case 101: case 102: *value = 24; return ACL_SUCCESS;  // cube cores
        case 201: *value = 48; return ACL_SUCCESS;            // vector cores
        case 601: *value = arch(); return ACL_SUCCESS;
        default: return fail(ACL_ERROR_INVALID_PARAM, "the simulated device does not know this attribute");
    }
}

const char* aclrtGetSocName(void) { return arch() == 3510 ? "Ascend950" : "Ascend910B2"; }

// What no driver of hardware tells: a line for each copy that was slower than it need have been since the last call.
extern "C" const char* ascsim_remarks(void) {
    const Guard guard(device().lock);
    thread_local std::string told;
    return told.clear(), told.swap(device().remarks), told.c_str();
}

// For tests: what was asked for and not given back.
extern "C" size_t ascsim_live(int what) {
    const Guard guard(device().lock);
    return what == 0 ? device().memory.size() : what == 1 ? device().binaries.size() : device().streams.size();
}

const char* aclGetRecentErrMsg(void) { return the_message.c_str(); }
