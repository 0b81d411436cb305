"""Kernels in Ascend C, written by hand, on the simulated device."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto.runtime.acl import opened
from pypto.runtime.simulator import toolkit
from tests.patience import limit

Array = np.ndarray[Any, Any]
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'


@functools.cache
def folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pypto-sim-")


@functools.cache
def built() -> Path:
    return toolkit(Path(os.environ["PYPTO_CACHE_DIR"]))  # which all workers of a run share, and `pto.device` finds


@functools.cache
def compiled(source: str, *flags: str, driver: str = "bisheng", arch: str = "dav-2201") -> bytes:
    """The binary that the toolkit's compiler makes.

    Raises
    ------
    subprocess.CalledProcessError
        With the compiler's words in `stderr`.
    """
    with tempfile.TemporaryDirectory(dir=folder().name) as place:
        file, out = Path(place) / "kernel.asc", Path(place) / "kernel.so"
        file.write_text(HEAD + source, encoding="utf-8")
        flags = flags or ("-x", "asc", f"--npu-arch={arch}", "-O1", "-std=c++17", "-fwrapv", "-shared", "-fPIC")
        command = [str(built() / "bin" / driver), *flags, str(file), "-o", str(out)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit(120))
        return out.read_bytes()


@functools.cache
def together(wrap: Callable[[str, str], str], bodies: tuple[str, ...], arch: str = "dav-2201") -> bytes:
    """One binary with a kernel `k0`, `k1`, … for each body: a compiler's start takes longer than most of them.

    `wrap` makes a kernel of a body and a name.
    """
    return compiled("\n".join(wrap(body, f"k{i}") for i, body in enumerate(bodies)), arch=arch)


def vector_kernel(body: str, name: str = "k", parameters: str = "GM_ADDR x, GM_ADDR y, int32_t n") -> str:
    """A vector kernel with a float tensor for each of x and y."""
    return f"""
extern "C" __global__ __vector__ __aicore__ void {name}({parameters}) {{
    GlobalTensor<float> gx, gy;
    gx.SetGlobalBuffer((__gm__ float*)x, n);
    gy.SetGlobalBuffer((__gm__ float*)y, n);
    LocalTensor<float> a(TPosition::VECCALC, 0, 4096), b(TPosition::VECCALC, 16384, 4096);
    LocalTensor<uint8_t> bits(TPosition::VECCALC, 32768, 4096);
    InitSocState();
    {body}
    PipeBarrier<PIPE_ALL>();
}}
"""


LOAD = """
    DataCopyPad(a, gx, {1, static_cast<uint32_t>(n) * 4u, 0, 0, 0}, {false, 0, 0, 0});
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
"""
STORE = """
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopyPad(gy, b, {1, static_cast<uint32_t>(n) * 4u, 0, 0, 0});
"""


def launched(
    source: str,
    arrays: list[Array],
    *numbers: int,
    blocks: int = 1,
    binary: bytes | None = None,
    arch: str = "dav-2201",
    name: str = "k",
) -> None:
    """Run a kernel over copies of arrays on the device, and copy them back.

    Raises
    ------
    AclError
        When the device finds a fault.
    """
    device = opened(built() / "lib64" / "libascendcl.so")
    try:
        memory = [device.copied(x) for x in arrays]
        function = device.load(binary or compiled(source, arch=arch)).function(name)
        arguments = struct.pack(f"{len(arrays)}Q{len(numbers)}i", *(m.address for m in memory), *numbers)
        device.launch(function, blocks, arguments)
        device.synchronize()
        for array, m in zip(arrays, memory, strict=True):
            m.read(array)
    finally:
        device.close()
