"""Torch extensions of projects, built against torch's headers and a device that keeps its tensors in simulated memory.

The part of torch_npu that an extension needs is written here in short: its current stream, and for tests that run a
kernel the operators by which tensors are made and copied. All other operators run on the CPU, on copies.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Final

from tests.patience import limit
from tests.runtime.simulated import folder as toolkit

STREAM: Final = """
#include "acl/acl.h"
namespace c10_npu {
struct NPUStream { aclrtStream stream(bool) const { return nullptr; } };
inline NPUStream getCurrentNPUStream() { return {}; }
}
"""

DEVICE: Final = Path(__file__).with_name("torch_device.cpp")


def built(folder: Path, project: Path, *further: Path) -> Path:
    """The extension of a project as a library, together with further sources."""
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    stub = folder / "torch_npu" / "csrc" / "core" / "npu" / "NPUStream.h"
    stub.parent.mkdir(parents=True, exist_ok=True)
    stub.write_text(STREAM, encoding="utf-8")
    folders = (project / "launch" / "host", toolkit() / "include", folder)
    system = [f"-isystem{path}" for path in (*include_paths(), sysconfig.get_paths()["include"])]
    sources = [*(project / "torch").glob("*.cpp"), *sorted((project / "launch" / "host").glob("*.cpp")), *further]
    links = [f"-L{path}" for path in (*library_paths(), toolkit() / "lib64")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", abi, "-Wall", "-Wextra", "-Werror",
               "-DTORCH_EXTENSION_NAME=made", *system, *(f"-I{path}" for path in folders), *sources, *links,
               "-ltorch_cpu", "-lc10", "-ltorch", "-lascendcl", f"-Wl,-rpath,{toolkit() / 'lib64'}",
               "-o", folder / "made.so"]  # fmt: skip
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=limit(300), check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return folder / "made.so"
