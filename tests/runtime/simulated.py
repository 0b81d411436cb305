"""A simulated device whose kernels are Ascend C written by hand, so that what is tested is the way to the device."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pypto as pto
from pypto.backends.ascend.backend import AscendBackend
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.plugin import runtime_of
from pypto.backends.ascend.target import ascend_target
from pypto.backends.base import Slot
from pypto.devices import device as by_name
from pypto.ir.types import float32
from pypto.runtime.acl import opened
from pypto.runtime.devices import Device
from pypto.runtime.simulator import toolkit

SCALE = """#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __vector__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, int64_t n, int64_t step_x, int64_t step_y,
                                                       float a, int32_t grid_x, int32_t grid_y, int32_t grid_z) {
    InitSocState();
    LocalTensor<float> t(TPosition::VECCALC, 0, 8);
    const int64_t programs = static_cast<int64_t>(grid_x) * grid_y * grid_z;
    for (int64_t i = GetBlockIdx(); i < n; i += programs) {
        GlobalTensor<float> from, to;
        from.SetGlobalBuffer((__gm__ float*)x + i * step_x, 1);
        to.SetGlobalBuffer((__gm__ float*)y + i * step_y, 1);
        DataCopyPad(t, from, {1, 4, 0, 0, 0}, {true, 0, 7, 0});  // LOAD
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        Muls(t, t, a, 8);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopyPad(to, t, {1, 4, 0, 0, 0});  // STORE
        PipeBarrier<PIPE_ALL>();
    }
}
"""
SLOTS = (Slot("ptr", "x"), Slot("ptr", "y"), Slot("shape", "x"), Slot("stride", "x"), Slot("stride", "y"),
         Slot("scalar", "a", 0, float32))  # fmt: skip


def written_by_hand(function: Any, target: Any) -> tuple[BlockKernel, str]:
    line = function.loc.line
    text = SCALE.replace("LOAD", str(line + 2)).replace("STORE", str(line + 3))
    return BlockKernel("scale", "vector", (), (), (), slots=SLOTS), text


def new_scale(**options: Any) -> Any:
    @pto.jit(**options)
    def scale(x: pto.dynamic, y: pto.dynamic, a):
        for i in range(pto.program_id(0), x.shape[0], pto.num_programs(0)):
            value = x[i]
            y[i] = value * a

    return scale


def folder() -> Path:
    return toolkit(Path(os.environ["PYPTO_CACHE_DIR"]))  # which all workers of a run share, and `pto.device` finds


def new_device(form: str = "", lower: Any = written_by_hand, chip: str = "ascend910b2") -> Device:
    acl = opened(runtime_of(folder(), "ascend-sim"))
    backend = AscendBackend(ascend_target(chip), folder, lambda: acl, form, lower)
    return Device("ascend-sim", acl, backend, by_name)


def live(device: Device) -> tuple[int, int, int]:
    """Allocations, binaries and streams that the simulated library keeps."""
    count = device.acl.functions.ascsim_live
    count.restype = ctypes.c_size_t
    return count(0), count(1), count(2)
