// What a tiling function asks of the chip.
#pragma once

#include "ascsim/contexts.h"

namespace platform_ascendc {

class PlatformAscendC {
public:
    explicit PlatformAscendC(const fe::PlatFormInfos* chip) : chip_(*chip) {}
    uint32_t GetCoreNumAic() const { return chip_.cube_cores; }
    uint32_t GetCoreNumAiv() const { return chip_.vector_cores; }
    uint32_t GetLibApiWorkSpaceSize() const { return chip_.library_bytes; }

private:
    fe::PlatFormInfos chip_;
};

}  // namespace platform_ascendc
