// The runtime library as a launcher sees it: device, memory, streams and events. Work on a stream is done when the
// program waits for it, so that one that forgets to wait sees old data; a kernel's fault comes out there, and the device
// is unusable after that until a reset. Each combination of arguments that CANN's runtime refuses is refused, by its code.

#include <cstdlib>
#include <cstring>

#include "acl_state.hpp"

namespace acl {

thread_local std::string the_message;

aclError fail(aclError code, const std::string& what) {
    the_message = what;
    return code;
}

aclError none(const char* what) { return fail(ACL_ERROR_INVALID_PARAM, std::string(what) + " is a null pointer"); }

aclError no_stream() { return fail(ACL_ERROR_RT_INVALID_HANDLE, "there is no such stream"); }

Stream* stream_of(aclrtStream stream) {
    if (stream == nullptr) return &device().standard;
    const auto found = device().streams.find(stream);
    return found == device().streams.end() ? nullptr : found->second.get();
}

namespace {

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

bool holds(const void* at, size_t bytes) {
    const auto address = reinterpret_cast<uint64_t>(at);
    const ascsim::Allocation* found = ascsim::allocation_at(address);
    return found != nullptr && address + bytes <= found->address + found->bytes;
}

bool is_device(const void* at) { return ascsim::allocation_at(reinterpret_cast<uint64_t>(at)) != nullptr; }

aclError check_copy(const void* dst, size_t most, const void* src, size_t count, aclrtMemcpyKind kind) {
    if (dst == nullptr) return none("dst");
    if (src == nullptr) return none("src");
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEFAULT) return fail(ACL_ERROR_INVALID_PARAM, "there is no such kind of copy");
    if (count > most) return fail(ACL_ERROR_RT_PARAM_INVALID, "more bytes are to be copied than the destination has");
    const bool guessed = kind == ACL_MEMCPY_DEFAULT;
    const bool from = guessed ? is_device(src) : kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool to = guessed ? is_device(dst) : kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    if ((from && !holds(src, count)) || (to && !holds(dst, count)))
        return fail(ACL_ERROR_RT_PARAM_INVALID, "the range does not lie in device memory that was allocated");
    if ((!from && is_device(src)) || (!to && is_device(dst)))
        return fail(ACL_ERROR_RT_PARAM_INVALID, "device memory stands where the kind of copy has memory of the host");
    return ACL_SUCCESS;
}

void note_written(void* at, size_t count) {
    const auto address = reinterpret_cast<uint64_t>(at);
    ascsim::Allocation* found = ascsim::allocation_at(address);
    found->note_written(address - found->address, count);
}

// A copy within the device has the holes of its source.
void copy(void* dst, const void* src, size_t count) {
    const auto to = reinterpret_cast<uint64_t>(dst), from = reinterpret_cast<uint64_t>(src);
    std::memmove(dst, src, count);
    ascsim::Allocation* target = ascsim::allocation_at(to);
    const ascsim::Allocation* source = ascsim::allocation_at(from);
    if (target == nullptr) return;
    if (source == nullptr) target->note_written(to - target->address, count);
    else target->note_copied(*source, from - source->address, to - target->address, count);
}

// Events are used by their handles, which are known as long as they live.
Event* event_of(aclrtEvent event) {
    const auto found = device().events.find(event);
    return found == device().events.end() ? nullptr : found->second.get();
}

aclError check_event(aclrtEvent event) {
    if (event == nullptr) return none("event");
    return event_of(event) != nullptr ? ACL_SUCCESS : fail(ACL_ERROR_RT_INVALID_HANDLE, "there is no such event");
}

}  // namespace

}  // namespace acl

namespace ascsim {

Allocation* allocation_at(uint64_t address) {
    auto& memory = acl::device().memory;
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) return nullptr;
    Allocation& found = *std::prev(after)->second;
    return address < found.address + found.bytes ? &found : nullptr;
}

uint64_t sync_address() {
    static uint64_t flags[16];  // its place alone matters
    return reinterpret_cast<uint64_t>(flags);
}

}  // namespace ascsim

using namespace acl;

aclError aclrtCreateStream(aclrtStream* stream) {
    const Guard guard(library().lock);
    if (stream == nullptr) return none("stream");
    if (const aclError error = ready()) return error;
    auto made = std::make_unique<Stream>();
    *stream = made.get();
    device().streams[made.get()] = std::move(made);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream) {
    const Guard guard(library().lock);
    if (stream == nullptr) return none("stream");
    return device().streams.erase(stream) != 0 ? ACL_SUCCESS : no_stream();
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    const Guard guard(library().lock);
    if (const aclError error = ready()) return error;
    Stream* found = stream_of(stream);
    return found != nullptr ? drain(*found) : no_stream();
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    if (timeout < -1 || timeout == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "a timeout is -1, or more than 0");
    return aclrtSynchronizeStream(stream);
}

aclError aclrtSynchronizeDevice(void) {
    const Guard guard(library().lock);
    if (const aclError error = ready()) return error;
    aclError first = drain(device().standard);
    for (auto& [key, stream] : device().streams)
        if (const aclError error = drain(*stream); first == ACL_SUCCESS) first = error;
    return first;
}

aclError aclrtMalloc(void** at, size_t bytes, aclrtMemMallocPolicy) {
    const Guard guard(library().lock);
    if (at == nullptr) return none("devPtr");
    if (bytes == 0) return fail(ACL_ERROR_INVALID_PARAM, "no bytes are asked for");
    constexpr size_t kAlignment = 512;
    if (bytes + kAlignment < bytes) return fail(ACL_ERROR_INVALID_PARAM, "so many bytes have no address");
    if (const aclError error = ready()) return error;
    void* made = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (made == nullptr) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the machine has no memory left");
    std::memset(made, 0xA5, bytes);  // nobody may rely on zeros
    const auto address = reinterpret_cast<uint64_t>(made);
    device().memory[address] = std::make_unique<ascsim::Allocation>(address, bytes);
    *at = made;
    return ACL_SUCCESS;
}

aclError aclrtFree(void* at) {
    const Guard guard(library().lock);
    if (at == nullptr) return none("devPtr");
    if (device().memory.erase(reinterpret_cast<uint64_t>(at)) == 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "this memory was not allocated, or freed already");
    std::free(at);
    return ACL_SUCCESS;
}

aclError aclrtMallocHost(void** at, size_t bytes) {
    if (at == nullptr) return none("hostPtr");
    if (bytes == 0) return fail(ACL_ERROR_INVALID_PARAM, "no bytes are asked for");
    *at = std::malloc(bytes);
    return *at != nullptr ? ACL_SUCCESS : fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the machine has no memory left");
}

aclError aclrtFreeHost(void* at) {
    if (at == nullptr) return none("hostPtr");
    std::free(at);
    return ACL_SUCCESS;
}

aclError aclrtMemset(void* at, size_t most, int32_t value, size_t count) {
    const Guard guard(library().lock);
    if (count == 0) return ACL_SUCCESS;
    if (at == nullptr) return none("devPtr");
    if (const aclError error = ready()) return error;
    if (count > most || !holds(at, count)) return fail(ACL_ERROR_RT_PARAM_INVALID, "the range does not lie in device memory that was allocated");
    std::memset(at, value, count);
    note_written(at, count);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* dst, size_t most, const void* src, size_t count, aclrtMemcpyKind kind) {
    const Guard guard(library().lock);
    if (count == 0) return ACL_SUCCESS;
    if (const aclError error = ready()) return error;
    if (const aclError error = check_copy(dst, most, src, count, kind)) return error;
    copy(dst, src, count);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t most, const void* src, size_t count, aclrtMemcpyKind kind, aclrtStream stream) {
    const Guard guard(library().lock);
    if (count == 0) return ACL_SUCCESS;
    if (const aclError error = ready()) return error;
    if (const aclError error = check_copy(dst, most, src, count, kind)) return error;
    Stream* found = stream_of(stream);
    if (found == nullptr) return no_stream();
    found->work.push_back([=] {
        const aclError error = check_copy(dst, most, src, count, kind);  // it may be freed by now
        if (error == ACL_SUCCESS) copy(dst, src, count);
        return error;
    });
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
    const Guard guard(library().lock);
    constexpr uint32_t kAlone[] = {0x10, 0x20}, kAll = 0x3f;  // for the device only, external
    if (event == nullptr) return none("event");
    if ((flag & kAll) == 0 || flag > kAll) return fail(ACL_ERROR_RT_PARAM_INVALID, "there are no such flags of an event");
    for (const uint32_t one : kAlone)
        if ((flag & one) != 0 && flag != one) return fail(ACL_ERROR_RT_PARAM_INVALID, "this flag of an event stands alone");
    if (const aclError error = ready()) return error;
    auto made = std::make_unique<Event>();
    *event = made.get();
    device().events[made.get()] = std::move(made);
    return ACL_SUCCESS;
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    const Guard guard(library().lock);
    if (const aclError error = check_event(event)) return error;
    device().events.erase(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    const Guard guard(library().lock);
    if (const aclError error = check_event(event)) return error;
    if (const aclError error = ready()) return error;
    Stream* found = stream_of(stream);
    if (found == nullptr) return no_stream();
    found->work.push_back([event] {
        if (Event* one = event_of(event)) one->time = std::chrono::steady_clock::now(), one->recorded = true;
        return static_cast<aclError>(ACL_SUCCESS);
    });
    return ACL_SUCCESS;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    const Guard guard(library().lock);
    if (const aclError error = check_event(event)) return error;
    return stream_of(stream) != nullptr ? aclrtSynchronizeDevice() : no_stream();
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    const Guard guard(library().lock);
    if (const aclError error = check_event(event)) return error;
    return aclrtSynchronizeDevice();
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent first, aclrtEvent last) {
    const Guard guard(library().lock);
    if (ms == nullptr) return none("ms");
    for (const aclrtEvent one : {first, last}) {
        if (const aclError error = check_event(one)) return error;
        if (!event_of(one)->recorded) return fail(ACL_ERROR_RT_INTERNAL_ERROR, "the event was not recorded, or not waited for");
    }
    const std::chrono::duration<float, std::milli> passed = event_of(last)->time - event_of(first)->time;
    *ms = passed.count();
    return ACL_SUCCESS;
}

// What no driver of hardware tells: a line for each copy that was slower than it need have been since the last call.
extern "C" const char* ascsim_remarks(void) {
    const Guard guard(library().lock);
    thread_local std::string told;
    return told.clear(), told.swap(device().remarks), told.c_str();
}

// Before what is on the stream next, memory is nobody's any more, as if it had been allocated anew: no driver of hardware
// does that, and a kernel that reads what an earlier one left in a workspace is wrong there, too.
extern "C" aclError ascsim_discard(void* at, size_t bytes, aclrtStream stream) {
    const Guard guard(library().lock);
    if (const aclError error = ready()) return error;
    Stream* found = stream_of(stream);
    if (found == nullptr) return no_stream();
    found->work.push_back([=] {
        if (!holds(at, bytes)) return fail(ACL_ERROR_RT_PARAM_INVALID, "the range does not lie in device memory that was allocated");
        const auto address = reinterpret_cast<uint64_t>(at);
        ascsim::Allocation* memory = ascsim::allocation_at(address);
        memory->discard(address - memory->address, bytes);
        std::memset(at, 0xA5, bytes);
        return static_cast<aclError>(ACL_SUCCESS);
    });
    return ACL_SUCCESS;
}

// For tests: what was asked for and not given back, of the thread's device.
extern "C" size_t ascsim_live(int what) {
    const Guard guard(library().lock);
    return what == 0 ? device().memory.size() : what == 1 ? device().binaries.size() : device().streams.size();
}

const char* aclGetRecentErrMsg(void) { return the_message.c_str(); }
