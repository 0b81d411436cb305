"""`triton._internal_testing`: what Triton's own tests, and tests written like them, take from it.

Questions about the device have the answers of a CPU. The names that need torch import it when called.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.compat.triton.compiled import TensorWrapper, reinterpret
from pypto.compat.triton.driver import GPUTarget
from pypto.ir.types import DTYPES, DType, named

int_dtypes: Final = [d.public for d in DTYPES if d.kind == "int"]
uint_dtypes: Final = [d.public for d in DTYPES if d.kind == "uint"]
integral_dtypes: Final = int_dtypes + uint_dtypes
float_dtypes: Final = [d.public for d in DTYPES if d.is_float and d.public != "bfloat16"]
float_dtypes_with_bfloat16: Final = [*float_dtypes, "bfloat16"]
dtypes: Final = integral_dtypes + float_dtypes
dtypes_with_bfloat16: Final = [*dtypes, "bfloat16"]
torch_float8_dtypes: Final = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes: Final = ["bool", *int_dtypes, "uint8", *float_dtypes_with_bfloat16]
tma_dtypes: Final = sorted({*dtypes_with_bfloat16} - {"int64", "uint64", "float64"})


def is_interpreter() -> bool:
    """Whether kernels run in the interpreter."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def get_current_target() -> GPUTarget | None:
    """What kernels are compiled for; None in the interpreter."""
    return None if is_interpreter() else GPUTarget()


def no(*_: Any, **__: Any) -> bool:
    """Whether the device is a GPU of some make or has what such a GPU has: it has not."""
    return False


def is_cpu() -> bool:
    """Whether kernels run on a CPU: they do."""
    return not is_interpreter()


def supports_tma(byval_only: bool = False) -> bool:
    """Whether tensor descriptors work: in loads and stores they do."""
    return True


# fmt: off
_QUESTIONS: Final = (
    "is_cuda", "is_ampere_or_newer", "is_blackwell", "is_blackwell_ultra", "is_rubin", "is_hopper_or_newer",
    "is_hopper", "is_sm12x", "is_hip", "is_hip_cdna", "is_hip_cdna2", "is_hip_cdna3", "is_hip_cdna4",
    "is_hip_cdna3_or_newer", "is_hip_rdna", "is_hip_rdna3", "is_hip_rdna4", "is_hip_rdna4m", "is_hip_gfx11",
    "is_hip_gfx12", "is_hip_gfx1250", "is_xpu", "is_compile_warmup", "supports_ws", "supports_clc",
)
# fmt: on


def get_arch() -> str:
    """The architecture as text: empty, since a CPU is no GPU."""
    return ""


def get_hip_lds_size() -> int:
    """Bytes of memory that a program of a GPU shares."""
    return 65536


def tma_skip_msg(byval_only: bool = False) -> str:
    return "tensor descriptors are supported"


def random_int(low: int, high: int, *, warmup_value: int | None = None, **kwargs: Any) -> int:
    return int(importlib.import_module("torch").randint(low, high, size=(), **kwargs).item())


def random_float(*, warmup_value: float = 0.5, **kwargs: Any) -> float:
    return float(importlib.import_module("torch").rand((), **kwargs).item())


# --- arrays -----------------------------------------------------------------------------------------------------------


def numpy_random(shape: Any, dtype_str: str, rs: Any = None, low: Any = None, high: Any = None) -> Any:
    """Random numbers of a type as numpy holds them; integers are never 0.

    Numbers of bfloat16 are given in float32, codes of float8 as int8.
    """
    rs, shape = rs or np.random.RandomState(seed=17), (shape,) if isinstance(shape, int) else shape
    if dtype_str in integral_dtypes:
        return random_integers(shape, np.dtype(dtype_str), rs, low, high)
    if "float8" in dtype_str:
        return rs.randint(20, 40, shape, dtype=np.int8)
    if dtype_str in ("bool", "int1", "bool_"):
        return rs.normal(0, 1, shape) > 0.0
    if dtype_str not in float_dtypes_with_bfloat16:
        raise RuntimeError(f"there are no random numbers of the type {dtype_str}")
    numbers = rs.normal(0, 1, shape)
    if dtype_str != "bfloat16":
        return numbers.astype(dtype_str)
    return (numbers.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def random_integers(shape: Any, dtype: Any, rs: Any, low: Any, high: Any) -> Any:
    least, greatest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    low, high = least if low is None else max(low, least), greatest if high is None else min(high, greatest)
    array = rs.randint(low, high, shape, dtype=dtype)
    array[array == 0] = 1
    return array


def to_triton(x: Any, device: Any, dst_type: str | None = None) -> Any:
    """A tensor of the numbers of a numpy array, in a type that numpy may lack."""
    torch, name = importlib.import_module("torch"), x.dtype.name
    if name in uint_dtypes:
        return reinterpret(torch.tensor(x.astype(name[1:]), device=device), named(name))
    tensor = torch.tensor(x, device=device)
    if dst_type and "float8" in dst_type:
        return reinterpret(tensor, named(dst_type))
    return tensor.bfloat16() if name == "float32" and dst_type == "bfloat16" else tensor


def to_numpy(x: Any) -> Any:
    """The numbers of a tensor; those of bfloat16 in float32."""
    torch = importlib.import_module("torch")
    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().astype(torch_dtype_name(x.dtype))
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{x!r} is no tensor")
    return (x.float() if x.dtype is torch.bfloat16 else x).cpu().numpy()


def unwrap_tensor(t: Any) -> Any:
    return t.base if isinstance(t, TensorWrapper) else t


def str_to_triton_dtype(x: str) -> DType | None:
    """The element type of a name of torch's, numpy's or Triton's."""
    return named(x)


def torch_dtype_name(dtype: Any) -> str:
    """A type's name as numpy and torch have it."""
    return dtype.public if isinstance(dtype, DType) else str(dtype).rpartition(".")[2]


def default_alloc_fn(size: int, align: int, stream: Any) -> Any:
    return importlib.import_module("torch").empty(size, dtype=importlib.import_module("torch").int8)


# --- processes and settings -------------------------------------------------------------------------------------------


@dataclass
class ProcessResult:
    """What a function ended with, and what the driver of a GPU would have written."""

    exc: BaseException | None
    driver_stderr_output: str


@contextmanager
def use_process_pool(preload_module: str) -> Iterator[None]:
    """Nothing: functions are called in this process."""
    yield


def run_in_process(client_fn: Callable[..., Any], args: Any = (), kwargs: Any = None, env: Any = None) -> ProcessResult:
    """Call a function here: an error in a kernel does not end the process."""
    old = {name: os.environ.get(name) for name in env or {}}
    os.environ.update(env or {})
    try:
        client_fn(*args, **(kwargs or {}))
    except Exception as error:
        return ProcessResult(error, str(error))
    finally:
        restore(old)
    return ProcessResult(None, "")


def restore(environment: Mapping[str, str | None]) -> None:
    """Variables of the environment as they were; None was none."""
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def fresh_knobs_impl(
    *given: Any, skipped_attr: Collection[str] | None = None
) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Two functions: one sets all knobs back and gives their module, the other undoes that.

    By position, Triton 3.4 takes pytest's `monkeypatch`, which is not needed here, and later versions take the names.
    """
    knobs = sys.modules["triton.knobs"]
    skipped = next((x for x in given if isinstance(x, set)), skipped_attr) or ()
    saved = {n: x for n, x in vars(knobs).items() if isinstance(x, knobs.base_knobs) and n not in skipped}
    environment = {d.key: os.environ.get(d.key) for x in saved.values() for d in x.knob_descriptors.values()}

    def fresh() -> Any:
        for key in environment:
            os.environ.pop(key, None)
        for name, group in saved.items():
            setattr(knobs, name, group.copy().reset())
        return knobs

    def undo() -> None:
        for name, group in saved.items():
            setattr(knobs, name, group)
        restore(environment)

    return fresh, undo


def requires_tma(test: Any) -> Any:
    """A mark of tests that need tensor descriptors: it skips none."""
    return test


_OURS: Final = ("fresh_knobs_impl", "names", "no", "random_integers", "restore")


def names() -> dict[str, Any]:
    """What the module holds."""
    here = {n: x for n, x in globals().items() if not n.startswith("_") and n not in _OURS}
    plain = {n: x for n, x in here.items() if isinstance(x, list) or getattr(x, "__module__", "") == __name__}
    return {**plain, **dict.fromkeys(_QUESTIONS, no), "_fresh_knobs_impl": fresh_knobs_impl}
