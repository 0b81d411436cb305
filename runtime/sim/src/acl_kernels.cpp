// Kernels as a launcher sees them: binaries are loaded, functions found by name, launches queued.

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "acl_state.hpp"

namespace acl {

Binary::~Binary() {
    if (library != nullptr) dlclose(library);
    if (file >= 0) close(file);
}

namespace {

using ascsim::Entry;

constexpr uint32_t kMagic[] = {0x41494343, 0x41415246, 0x43554245};  // cube, vector, both
enum class From { File, Data };

uint64_t seed() {
    const char* text = std::getenv("ASCSIM_SEED");
    return (text != nullptr ? std::strtoull(text, nullptr, 10) : 1) + 7919 * device().launches++;
}

aclError check_options(const aclrtBinaryLoadOptions* options, From from) {
    if (options == nullptr) return ACL_SUCCESS;
    if (options->options == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the options of a binary are a null pointer");
    for (size_t i = 0; i < options->numOpt; ++i) {
        const auto& one = options->options[i];
        switch (one.type) {
            case ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD:
                if (one.value.isLazyLoad > 1) return fail(ACL_ERROR_RT_PARAM_INVALID, "lazy load is 0 or 1");
                break;
            case ACL_RT_BINARY_LOAD_OPT_MAGIC:
                if (from == From::File) return fail(ACL_ERROR_RT_PARAM_INVALID, "a magic number is no option of a binary from a file");
                if (one.value.magic != kMagic[0] && one.value.magic != kMagic[1] && one.value.magic != kMagic[2])
                    return fail(ACL_ERROR_RT_PARAM_INVALID, "there is no such magic number");
                break;
            case ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE:
                return fail(ACL_ERROR_RT_PARAM_INVALID, "the simulated device has no AI CPU");
            default: return fail(ACL_ERROR_RT_PARAM_INVALID, "there is no such option of a binary");
        }
    }
    return ACL_SUCCESS;
}

// What the caller says that a binary is for is believed on hardware; what runs is anybody's guess if it is wrong.
bool fits(const Binary& binary, const aclrtBinaryLoadOptions* options) {
    for (size_t i = 0; options != nullptr && i < options->numOpt; ++i)
        for (const auto& [name, entry] : binary.entries)
            if (options->options[i].type == ACL_RT_BINARY_LOAD_OPT_MAGIC && options->options[i].value.magic != kMagic[entry.kind]) return false;
    return true;
}

// The name under which a program finds a kernel: parts of a mixed kernel are told apart by a suffix.
std::string stem_of(const Entry& entry) {
    const std::string name = entry.name, suffix = entry.part == 1 ? "_mix_aic" : "_mix_aiv";
    return entry.part == 0 ? name : name.substr(0, name.size() - suffix.size());
}

// The kernels of a library; the two parts of a mixed kernel become one. Gives what is wrong with them.
std::string add_entries(Binary& binary, const Entry* const* begin, const Entry* const* end) {
    std::map<std::string, std::array<const Entry*, 2>> parts;
    for (; begin != end; ++begin) {
        const Entry& entry = **begin;
        if (entry.part == 0) binary.entries.emplace(entry.name, entry);
        else parts[stem_of(entry)][static_cast<size_t>(entry.part - 1)] = &entry;
    }
    for (const auto& [name, both] : parts) {
        if (both[0] == nullptr || both[1] == nullptr) return name + (both[0] == nullptr ? "_mix_aic" : "_mix_aiv") + " is missing in the binary";
        if (both[0]->args_bytes != both[1]->args_bytes) return "the parts of " + name + " take different arguments";
        const auto made = binary.entries.emplace(name, *both[0]).first;
        made->second.name = made->first.c_str(), made->second.vector_call = both[1]->call;
    }
    return "";
}

// Binaries take the functions of this library from the global scope, also where a host has loaded it into one of its own.
void enter_global_scope() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&enter_global_scope), &info) != 0) dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

aclError load(const void* data, size_t bytes, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    auto binary = std::make_unique<Binary>();
    binary->file = memfd_create("kernel", MFD_CLOEXEC);
    if (binary->file < 0 || write(binary->file, data, bytes) != static_cast<ssize_t>(bytes))
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no memory for the binary");
    const std::string path = "/proc/self/fd/" + std::to_string(binary->file);
    enter_global_scope();
    binary->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (binary->library == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string("this is no kernel binary: ") + dlerror());
    const auto ends = reinterpret_cast<void (*)(const Entry* const**, const Entry* const**)>(dlsym(binary->library, "ascsim_entries"));
    const auto* number = static_cast<const int*>(dlsym(binary->library, "ascsim_arch_number"));
    const Entry* const *begin = nullptr, *const *end = nullptr;
    if (ends != nullptr) ends(&begin, &end);
    if (begin == end || number == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the binary has no kernels in it");
    binary->arch = *number;
    if (const std::string wrong = add_entries(*binary, begin, end); !wrong.empty()) return fail(ACL_ERROR_RT_PARAM_INVALID, wrong);
    if (!fits(*binary, options)) return fail(ACL_ERROR_RT_PARAM_INVALID, "the binary is for another kind of cores than its magic number says");
    *handle = binary.get();
    device().binaries[binary.get()] = std::move(binary);
    return ACL_SUCCESS;
}

// The binary that a function is from; null when that was unloaded.
const Binary* owner_of(aclrtFuncHandle function) {
    for (const auto& [key, binary] : device().binaries)
        for (const auto& [name, entry] : binary->entries)
            if (&entry == function) return binary.get();
    return nullptr;
}

aclError check_config(const aclrtLaunchKernelCfg* config) {
    if (config == nullptr) return ACL_SUCCESS;
    if (config->attrs == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the attributes of a launch are a null pointer");
    int timeouts = 0;
    for (size_t i = 0; i < config->numAttrs; ++i) {
        const auto& one = config->attrs[i];
        if (one.id == ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE && one.value.schemMode > 1)
            return fail(ACL_ERROR_RT_PARAM_INVALID, "the schedule mode of a launch is 0 or 1");
        if (one.id == ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH && one.value.isBlockTaskPrefetch > 1)
            return fail(ACL_ERROR_RT_PARAM_INVALID, "prefetch of a launch is 0 or 1");
        if (one.id == ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP && one.value.isDataDump > 1)
            return fail(ACL_ERROR_RT_PARAM_INVALID, "data dump of a launch is 0 or 1");
        timeouts += one.id == ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT || one.id == ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US ? 1 << (one.id - ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT) : 0;
    }
    return (timeouts & 3) == 3 ? fail(ACL_ERROR_RT_PARAM_INVALID, "a launch has one timeout, in seconds or in microseconds") : ACL_SUCCESS;
}

aclError check_arguments(const Entry& entry, size_t bytes, const aclrtPlaceHolderInfo* places, size_t count) {
    if (bytes < entry.args_bytes || bytes == 0)
        return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(entry.name) + " takes " + std::to_string(entry.args_bytes) + " bytes of arguments, not " + std::to_string(bytes));
    if (count != 0 && places == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "the place holders are a null pointer");
    for (size_t i = 0; i < count; ++i)
        if (places[i].addrOffset >= bytes || places[i].dataOffset >= bytes)
            return fail(ACL_ERROR_RT_PARAM_INVALID, "a place holder lies behind the arguments");
    return ACL_SUCCESS;
}

}  // namespace

}  // namespace acl

using namespace acl;

aclError aclrtBinaryLoadFromFile(const char* path, aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    const Guard guard(library().lock);
    if (path == nullptr) return none("binPath");
    if (handle == nullptr) return none("binHandle");
    if (const aclError error = check_options(options, From::File)) return error;
    if (const aclError error = ready()) return error;
    std::FILE* file = std::fopen(path, "rb");
    if (file == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string("there is no file ") + path);
    std::vector<char> data;
    char part[1 << 16];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) data.insert(data.end(), part, part + n);
    std::fclose(file);
    return load(data.data(), data.size(), options, handle);
}

aclError aclrtBinaryLoadFromData(const void* data, size_t bytes, const aclrtBinaryLoadOptions* options, aclrtBinHandle* handle) {
    const Guard guard(library().lock);
    if (data == nullptr) return none("data");
    if (handle == nullptr) return none("binHandle");
    if (bytes == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "a binary of no bytes");
    if (const aclError error = check_options(options, From::Data)) return error;
    if (const aclError error = ready()) return error;
    return load(data, bytes, options, handle);
}

aclError aclrtBinaryUnLoad(aclrtBinHandle handle) {
    const Guard guard(library().lock);
    if (handle == nullptr) return none("binHandle");
    if (device().binaries.erase(handle) == 0) return fail(ACL_ERROR_RT_INVALID_HANDLE, "there is no such binary");
    return ACL_SUCCESS;
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle handle, const char* name, aclrtFuncHandle* function) {
    const Guard guard(library().lock);
    if (handle == nullptr) return none("binHandle");
    if (name == nullptr) return none("kernelName");
    if (function == nullptr) return none("funcHandle");
    const auto binary = device().binaries.find(handle);
    if (binary == device().binaries.end()) return fail(ACL_ERROR_RT_INVALID_HANDLE, "there is no such binary");
    const auto found = binary->second->entries.find(name);
    if (found == binary->second->entries.end()) return fail(ACL_ERROR_RT_PARAM_INVALID, std::string("the binary has no kernel ") + name);
    *function = &found->second;
    return ACL_SUCCESS;
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle function, uint32_t blocks, aclrtStream stream, aclrtLaunchKernelCfg* config, void* args, size_t bytes,
                                       aclrtPlaceHolderInfo* places, size_t count) {
    const Guard guard(library().lock);
    if (function == nullptr) return none("funcHandle");
    if (args == nullptr) return none("hostArgs");
    if (const aclError error = ready()) return error;
    const Binary* owner = owner_of(function);
    if (owner == nullptr) return fail(ACL_ERROR_RT_INVALID_HANDLE, "the function is of a binary that was unloaded");
    Stream* found = stream_of(stream);
    if (found == nullptr) return no_stream();
    const auto* entry = static_cast<const Entry*>(function);
    if (const aclError error = check_arguments(*entry, bytes, places, count)) return error;
    if (blocks == 0 || blocks > 65535) return fail(ACL_ERROR_RT_PARAM_INVALID, "a launch has 1 to 65535 blocks");
    if (const aclError error = check_config(config)) return error;
    std::vector<uint8_t> packed(static_cast<const uint8_t*>(args), static_cast<const uint8_t*>(args) + bytes);
    for (size_t i = 0; i < count; ++i) {  // the address of what follows the arguments stands among them
        const uint64_t at = reinterpret_cast<uint64_t>(packed.data() + places[i].dataOffset);
        std::memcpy(packed.data() + places[i].addrOffset, &at, std::min<size_t>(sizeof at, bytes - places[i].addrOffset));
    }
    auto shared = std::make_shared<std::vector<uint8_t>>(std::move(packed));
    found->work.push_back([function, entry, blocks, shared, number = owner->arch] {
        if (owner_of(function) == nullptr) return fail(ACL_ERROR_RT_AICORE_EXCEPTION, "the binary of a queued kernel was unloaded");
        ascsim::Launch launch(*entry, blocks, number, seed());
        const std::string fault = launch.run(shared->data());
        for (const auto& remark : launch.remarks()) device().remarks += remark + "\n";
        if (fault.empty()) return static_cast<aclError>(ACL_SUCCESS);
        return fail(entry->kind == 1 ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION : ACL_ERROR_RT_AICORE_EXCEPTION, fault);
    });
    return ACL_SUCCESS;
}

aclError aclrtGetHardwareSyncAddr(void** at) {
    const Guard guard(library().lock);
    if (at == nullptr) return none("addr");
    if (const aclError error = ready()) return error;
    *at = reinterpret_cast<void*>(ascsim::sync_address());
    return ACL_SUCCESS;
}
