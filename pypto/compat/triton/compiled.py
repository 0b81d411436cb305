"""What a launch gives back, and what stands for arrays that are not there."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.ir.types import DType, PtrType, written_type
from pypto.runtime.specialization import Specialization

if TYPE_CHECKING:
    from pypto.compat.triton.kernels import JITFunction

# Figures that code for GPUs divides by to find how many programs run at once.
N_REGS: Final = 32
SHARED_BYTES: Final = 1024


class MockTensor:
    """Stands for an array of a dtype, to compile for: ``kernel.warmup(MockTensor(torch.float32), …)``."""

    def __init__(self, dtype: Any, shape: Any = None) -> None:
        self.dtype = dtype
        if shape is not None:
            self.shape = tuple(shape)

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        """A stand-in where a dtype of torch is given for an array."""
        kind = type(arg)
        return MockTensor(arg) if kind.__name__ == "dtype" and kind.__module__ == "torch" else arg

    @staticmethod
    def data_ptr() -> int:
        return 0

    @staticmethod
    def ptr_range() -> int:
        return 0


def sample(text: str) -> Any:
    """A value of a type that is written as in Triton."""
    dtype = written_type(text)
    if isinstance(dtype, PtrType):
        return MockTensor(dtype.pointee)
    if isinstance(dtype, DType):
        return np.zeros((), dtype.numpy)[()] + 2 if not dtype.is_bool else True
    raise TypeError(f"{text!r} is no type of an argument; write for instance '*fp32' for a pointer, or 'i32', 'fp32'")


class TensorWrapper:
    """A tensor whose elements are taken for another type of the same size."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base, self.dtype = base, dtype
        self.data, self.device, self.shape = base.data, getattr(base, "device", None), base.shape

    def data_ptr(self) -> int:
        base = self.base
        return int(base.data_ptr() if hasattr(base, "data_ptr") else base.ctypes.data)

    def stride(self, *dims: int) -> Any:
        base = self.base
        if hasattr(base, "data_ptr"):
            return base.stride(*dims)
        strides = tuple(s // base.itemsize for s in base.strides)
        return strides[dims[0]] if dims else strides

    def element_size(self) -> int:
        return int(self.base.element_size() if hasattr(self.base, "element_size") else self.base.itemsize)

    def cpu(self) -> TensorWrapper:
        return TensorWrapper(self.base.cpu(), self.dtype)

    def clone(self) -> TensorWrapper:
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        self.base.copy_(other.base)

    def to(self, device: Any) -> TensorWrapper:
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """View memory as elements of another type of the same size, or of its original type."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if dtype == base.dtype:
        return base
    if hasattr(base, "data_ptr") or hasattr(base, "ctypes"):
        return TensorWrapper(base, dtype)
    raise TypeError(f"reinterpret takes an array or a tensor, not a {type(tensor).__name__}")


# The levels of ours that come nearest to Triton's, and to the formats of GPUs.
_LEVELS: Final[Mapping[str, str]] = MappingProxyType({
    "ttir": "tile-ir", "ttgir": "optimized-ir", "llir": "llvm-ir",
    **dict.fromkeys(("ptx", "cubin", "amdgcn", "hsaco"), "assembly"),
})  # fmt: skip


# A shared library of a kernel for AOTInductor, and that of its launcher: here it is one.
_LIBRARIES: Final = ("so", "launcher.so")


class Texts(Mapping[str, Any]):
    """The levels of a compiled kernel as text: pypto's own, under the names of Triton's; empty if interpreted.

    Beside them there is a shared library, which is made when it is asked for.
    """

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel

    def __getitem__(self, name: str) -> Any:
        if name in _LIBRARIES:
            return self._kernel.library
        from pypto.debug.levels import levels

        level, kernel = _LEVELS[name], self._kernel
        version = kernel.specialization or next(iter(kernel.fn.ours.specializations[::-1]), None)
        if version is None:
            return ""
        shown = levels(version).get(level)
        return shown(version, False) if shown else ""

    def __iter__(self) -> Iterator[str]:
        return iter(_LEVELS)

    def __len__(self) -> int:
        return len(_LEVELS)


class CompiledKernel:
    """A compiled version, with the figures that code for GPUs reads. They are plausible, not measured.

    `kernel[grid](…)` launches it. Arguments that were constants when it was compiled may be left out.
    """

    __slots__ = ("__dict__", "_version")  # torch pickles the dictionary, and a version stays in its process
    n_regs, n_spills, n_max_threads = N_REGS, 0, 1024
    launch_enter_hook = launch_exit_hook = None

    @classmethod
    def of(cls, *args: Any, **named: Any) -> CompiledKernel:
        """A version. Packages replace `__init__` by one with Triton's own parameters, so none is called."""
        return cls.__new__(cls)._begin(*args, **named)

    def _begin(
        self,
        fn: JITFunction,
        specialization: Specialization | None,
        args: tuple[Any, ...],
        given: dict[str, Any],
        name: str = "",
    ) -> CompiledKernel:
        self.fn, self._version, self._args, self._given = fn, specialization, args, given
        self.src: Any = SimpleNamespace(fn=fn, constants={})
        self.name, self.module, self.function = name or fn.__name__, None, 0
        return self

    def from_source(self, src: Any) -> CompiledKernel:
        """Keep the types and constants that the kernel is compiled for."""
        self.src = src
        return self

    @property
    def specialization(self) -> Specialization | None:
        """The compiled version; None after a launch, and in a process that another one compiles for."""
        return getattr(self, "_version", None)

    @property
    def program(self) -> Any:
        return self.specialization.program if self.specialization else None

    @functools.cached_property
    def hash(self) -> str:
        """Differs between kernels, and between the types and constants that one of them is compiled for."""
        parts = (self.fn.cache_key, self.name, *map(repr, sorted(getattr(self.src, "signature", {}).items())))
        return hashlib.sha256("\n".join((*parts, repr(self.src.constants))).encode()).hexdigest()

    @property
    def metadata(self) -> SimpleNamespace:
        """Figures of the launch on a GPU."""
        return SimpleNamespace(
            name=self.name, shared=SHARED_BYTES, num_warps=4, num_stages=3, num_ctas=1, cluster_dims=(1, 1, 1),
            warp_size=32, global_scratch_size=0, hash=self.hash, tmem_size=0,
        )  # fmt: skip

    shared, num_warps, num_ctas, cluster_dims = SHARED_BYTES, 4, 1, (1, 1, 1)
    packed_metadata: tuple[int, ...] = (4, 1, SHARED_BYTES, 1, 1, 1)

    @functools.cached_property
    def asm(self) -> Mapping[str, Any]:
        return Texts(self)

    @functools.cached_property
    def library(self) -> bytes:
        """A shared library of the kernel, with the launcher that AOTInductor looks for."""
        from pypto.compat.triton.shared import library

        return library(self)

    @property
    def kernel(self) -> Any:
        return self.asm["cubin"]

    def _init_handles(self) -> None:
        """Nothing is left to be loaded."""

    def __getitem__(self, grid: Any) -> Any:
        return functools.partial(self._launch, grid)

    @property
    def run(self) -> Any:
        """The launcher."""
        return self._run

    def _run(self, grid_x: int, grid_y: int, grid_z: int, *others: Any) -> None:
        """As Triton's launchers are called: sizes, six things about the stream and the binary, then the arguments.

        What was a constant when the kernel was compiled keeps its value, whatever stands in its place.
        """
        names, fixed = self.fn.arg_names, self.src.constants
        given = zip(names, others[-len(names) :], strict=True)
        self._launch((grid_x, grid_y, grid_z), *(fixed.get(name, x) for name, x in given))

    def _launch(self, grid: Any, *args: Any, stream: Any = None) -> None:
        names, fixed = self.fn.arg_names, {p.name for p in self.fn.params if p.is_constexpr}
        if len(args) < len(names):
            known = {**dict(zip(names, self._args, strict=False)), **self._given}
            free = iter(args)
            args = tuple(known[n] if n in fixed else next(free, known.get(n)) for n in names)
        self.fn.run(*args, grid=grid)
