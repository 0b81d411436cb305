// Chips by the names that CANN gives them. Figures: CANN's public platform files.

#include <cstdlib>
#include <cstring>

#include "acl_state.hpp"

namespace acl {

namespace {

constexpr int64_t kMega = 1 << 20, kGiga = 1 << 30;
constexpr Soc kSocs[] = {
    {"Ascend910B1", 2201, 24, 48, 192 * kMega, 64 * kGiga},      {"Ascend910B2", 2201, 24, 48, 192 * kMega, 64 * kGiga},
    {"Ascend910B3", 2201, 20, 40, 192 * kMega, 64 * kGiga},      {"Ascend910B4", 2201, 20, 40, 96 * kMega, 32 * kGiga},
    {"Ascend910_9362", 2201, 20, 40, 168 * kMega, 64 * kGiga},   {"Ascend910_9372", 2201, 20, 40, 192 * kMega, 64 * kGiga},
    {"Ascend910_9382", 2201, 24, 48, 192 * kMega, 64 * kGiga},   {"Ascend910_9392", 2201, 24, 48, 192 * kMega, 64 * kGiga},
    {"Ascend950PR_950z", 3510, 4, 8, 16 * kMega, 24 * kGiga},    {"Ascend950DT_950x", 3510, 8, 16, 32 * kMega, 24 * kGiga},
    {"Ascend950PR_9579", 3510, 28, 56, 128 * kMega, 128 * kGiga}, {"Ascend950PR_9589", 3510, 32, 64, 128 * kMega, 128 * kGiga},
    {"Ascend950PR_9599", 3510, 36, 72, 128 * kMega, 128 * kGiga}, {"Ascend310P3", 2002, 8, 7, 16 * kMega, 24 * kGiga},
};
constexpr const char* kUsual = "Ascend910B2";

}  // namespace

// The chip that ASCSIM_SOC names.
const Soc& soc() {
    const char* wanted = std::getenv("ASCSIM_SOC");
    for (const char* name : {wanted != nullptr ? wanted : kUsual, kUsual})
        for (const Soc& one : kSocs)
            if (std::strcmp(one.name, name) == 0) return one;
    return kSocs[0];
}

}  // namespace acl

const char* aclrtGetSocName(void) { return acl::soc().name; }

aclError aclrtGetDeviceInfo(uint32_t id, aclrtDevAttr attr, int64_t* value) {
    if (value == nullptr) return acl::none("value");
    if (!acl::is_device_number(id)) return acl::fail(ACL_ERROR_RT_PARAM_INVALID, "there are two simulated devices, numbers 0 and 1");
    const acl::Soc& chip = acl::soc();
    switch (attr) {
        case ACL_DEV_ATTR_AICORE_CORE_NUM:
        case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = chip.cube_cores; return ACL_SUCCESS;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = chip.vector_cores; return ACL_SUCCESS;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = chip.memory_bytes; return ACL_SUCCESS;
        case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = chip.l2_bytes; return ACL_SUCCESS;
        case ACL_DEV_ATTR_NPU_ARCH: *value = chip.arch; return ACL_SUCCESS;
        default: return acl::fail(ACL_ERROR_RT_PARAM_INVALID, "the simulated device does not know this attribute");
    }
}
