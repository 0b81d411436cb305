// Devices as a launcher sees them: each thread sets its own, and a reset ends what all threads have there.

#include <cstdlib>

#include "acl_state.hpp"

namespace acl {

namespace {

// The device that a thread has set, as long as that has not been reset.
struct Context {
    int number = -1;
    uint64_t resets = 0;
};

thread_local Context the_context;

bool has_device() {
    const int number = the_context.number;
    return is_device_number(number) && library().devices[static_cast<size_t>(number)].resets == the_context.resets;
}

void reset(Device& one) {
    for (auto& [at, allocation] : one.memory) std::free(reinterpret_cast<void*>(at));
    one.streams.clear(), one.standard.work.clear(), one.binaries.clear(), one.events.clear(), one.memory.clear();
    one.broken = false, one.users = 0, one.remarks.clear(), ++one.resets;
}

}  // namespace

Library& library() {
    static Library the_library;
    return the_library;
}

bool is_device_number(int64_t number) { return number >= 0 && number < kDevices; }

Device& device() { return has_device() ? library().devices[static_cast<size_t>(the_context.number)] : library().nowhere; }

aclError no_device() { return fail(ACL_ERROR_RT_INVALID_DEVICEID, "there are two simulated devices, numbers 0 and 1"); }

aclError ready() {
    if (!library().initialised) return fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    if (!has_device()) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called");
    if (device().broken) return fail(device().breakage, "the device stopped at a kernel's fault; aclrtResetDevice is needed");
    return ACL_SUCCESS;
}

}  // namespace acl

using namespace acl;

aclError aclInit(const char*) {
    const Guard guard(library().lock);
    if (library().initialised) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called twice");
    library().initialised = true;
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    const Guard guard(library().lock);
    if (!library().initialised) return fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called without aclInit");
    library().initialised = false, the_context = {};
    for (Device& one : library().devices) one.broken = false;
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t id) {
    const Guard guard(library().lock);
    if (!library().initialised) return fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    if (!is_device_number(id)) return no_device();
    Device& chosen = library().devices[static_cast<size_t>(id)];
    ++chosen.users;
    the_context = {id, chosen.resets};
    return ACL_SUCCESS;
}

// One call for each of aclrtSetDevice: the last of them resets the device.
aclError aclrtResetDevice(int32_t id) {
    const Guard guard(library().lock);
    if (!is_device_number(id)) return no_device();
    Device& chosen = library().devices[static_cast<size_t>(id)];
    if (chosen.users == 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called");
    if (--chosen.users == 0) reset(chosen);
    return ACL_SUCCESS;
}

aclError aclrtResetDeviceForce(int32_t id) {
    const Guard guard(library().lock);
    if (!is_device_number(id)) return no_device();
    Device& chosen = library().devices[static_cast<size_t>(id)];
    if (chosen.users == 0) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called");
    reset(chosen);
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* id) {
    const Guard guard(library().lock);
    if (id == nullptr) return none("deviceId");
    if (!has_device()) return fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called");
    *id = the_context.number;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
    if (count == nullptr) return none("count");
    *count = kDevices;
    return ACL_SUCCESS;
}
