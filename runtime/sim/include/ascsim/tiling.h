// What the kernel of an operator's project reads of its plan. The key is a constant of each compilation.
#pragma once

#include <cstring>

#define TILING_KEY_IS(key) (TILING_KEY_VAR == (key))
#define REGISTER_TILING_DEFAULT(type) static_assert(sizeof(type) % 8 == 0, "tiling data come in words of 8 bytes")
#define GET_TILING_DATA_WITH_STRUCT(type, name, from) \
    type name;                                        \
    std::memcpy(&name, from, sizeof name)
#define KERNEL_TASK_TYPE_DEFAULT(kind)
#define KERNEL_TASK_TYPE(key, kind)

namespace AscendC {
constexpr uint64_t ascsim_library_bytes = 16 << 20;  // of a workspace, in front of what the kernel's own part is
inline uint8_t* GetUserWorkspace(uint8_t* workspace) { return workspace + ascsim_library_bytes; }
}  // namespace AscendC
