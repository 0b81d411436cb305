// The part of the Ascend C basic API that the code generator writes, for a compiler of the host: the simulated device
// checks what the hardware would not forgive. Names and parameters are those of the public documentation.
#pragma once

#include "ascsim/call.h"
#include "ascsim/cube.h"
#include "ascsim/moves.h"
#include "ascsim/queue.h"
#include "ascsim/sync.h"
#include "ascsim/tiling.h"
#include "ascsim/vector.h"

#define __aicore__
#define __global__
#define __vector__
#define __cube__
#define __mix__(...)
#define __gm__
#define __inline__ inline
#define GM_ADDR uint8_t*
#define ASCEND_IS_AIC (ascsim_is_cube() != 0)
#define ASCEND_IS_AIV (ascsim_is_cube() == 0)

#ifndef __NPU_ARCH__
#error "the architecture is missing: compile with --npu-arch=dav-2201 or --npu-arch=dav-3510"
#endif
