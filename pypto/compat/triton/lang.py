"""Names of `triton.language` whose form differs from ours, written in the language."""

from __future__ import annotations

import builtins
import enum
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.compat.triton import utils
from pypto.ir.types import DType, TileType, int32, pointer_type
from pypto.language import libdevice, ops, ordering, random, reducing, shaping, standard
from pypto.language.aggregates import constexpr_function
from pypto.ops.public import constexpr, constexpr_type

Tile = Any  # a tile or scalar; annotations in here are for readers

TRITON_MAX_TENSOR_NUMEL: Final = 1048576
pi32_t: Final = pointer_type(int32)


class PropagateNan(enum.IntEnum):
    """What `maximum`, `minimum` and `clamp` do with NaN."""

    NONE = 0
    ALL = 0xFFFF


@constexpr_function
def block_type(element_ty: DType, shape: Any) -> TileType:
    """The type of a tile."""
    return TileType(tuple(shape), element_ty)


setattr(block_type, "instances_of", TileType)  # noqa: B010  # what `isinstance` in a kernel takes it for


# --- arithmetic as functions ------------------------------------------------------------------------------------------


def add(x: Tile, y: Tile, sanitize_overflow: Any = True) -> Tile:
    """x + y; integers wrap."""
    return x + y


def sub(x: Tile, y: Tile, sanitize_overflow: Any = True) -> Tile:
    """x - y; integers wrap."""
    return x - y


def mul(x: Tile, y: Tile, sanitize_overflow: Any = True) -> Tile:
    """x * y; integers wrap."""
    return x * y


def fdiv(x: Tile, y: Tile, ieee_rounding: Any = False, approx: Any = False) -> Tile:
    """x / y of floats, always IEEE's quotient."""
    return x / y


def cdiv(x: Any, div: Any) -> Any:
    """x / div rounded up, for integers that are not negative."""
    return standard.cdiv(x, div)


# --- values and hints -------------------------------------------------------------------------------------------------


def to_tensor(x: Any) -> Tile:
    """A number as a scalar of the least type that holds it."""
    return ops.where(True, x, x)


item = shaping.item


def condition(arg: Any, disable_licm: Any = False) -> Any:
    """The condition of a `while`, with hints for GPUs."""
    return arg


def expect_zero(x: Tile, mask: Tile) -> Tile:
    """x; that it is 0 where the mask holds is not needed."""
    return x


def static_assert(cond: Any, msg: Any = "") -> None:
    """An assertion about constants, at compile time."""
    assert cond, msg


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """An assertion at run time, for the elements where the mask holds."""
    standard.device_assert(cond, msg, mask)


# --- shapes, scans and order ------------------------------------------------------------------------------------------


def ravel(x: Tile, can_reorder: Any = False) -> Tile:
    """All elements in one dimension."""
    return shaping.ravel(x)


def squeeze(x: Tile, dim: constexpr) -> Tile:
    """Without a dimension of size 1."""
    return shaping.squeeze(x, dim)


def unsqueeze(x: Tile, dim: constexpr) -> Tile:
    """With a dimension of size 1."""
    return shaping.unsqueeze(x, dim)


def cumprod(input: Tile, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Tile:
    """Products of all elements up to each."""
    return ops.cumprod(input if dtype is None else ops.cast(input, dtype), axis, reverse)


def topk(x: Tile, k: Any, dim: Any = None, descending: Any = True) -> Tile:
    """The k greatest elements in order, or the k least."""
    if descending:
        return ordering.topk(x, k, dim)
    return -ordering.topk(-x, k, dim)


def rand4x(seed: Any, offsets: Tile, n_rounds: Any = 10) -> Any:
    """Four tiles of uniform random numbers."""
    return random.rand4x(seed, offsets, n_rounds)


# --- memory -----------------------------------------------------------------------------------------------------------


def atomic_load(pointer: Tile, mask: Any = None, sem: Any = None, scope: Any = None) -> Tile:
    """The elements at the pointers, each read as a whole."""
    return ops.atomic_or(pointer, 0, mask, sem, scope)


def atomic_store(pointer: Tile, val: Tile, mask: Any = None, sem: Any = None, scope: Any = None) -> None:
    """Writes elements, each as a whole."""
    ops.atomic_xchg(pointer, val, mask, sem, scope)


def atomic_poll(pointer: Tile, expected_value: Tile, sem: Any = None, scope: Any = None, timeout_ns: Any = None) -> Any:
    """Waits until all elements at the pointers have a value."""
    assert timeout_ns is None, "atomic_poll: programs have no clock here; poll a number of times in a loop"
    arrived = ops.atomic_or(pointer, 0) == expected_value
    while reducing.min(arrived.to(int32)) == 0:
        arrived = ops.atomic_or(pointer, 0) == expected_value
    return arrived


def _experimental_descriptor_load(desc: Any, offsets: Any, shape: Any = None, dtype: Any = None) -> Tile:
    """The block of a tensor descriptor at the offsets."""
    return desc.load(offsets)


def _experimental_descriptor_store(desc: Any, value: Tile, offsets: Any) -> None:
    """Writes a block of a tensor descriptor at the offsets."""
    desc.store(offsets, value)


def _same(x: Tile) -> Tile:
    return x


@constexpr_function
def _instruction(asm: str) -> Any:
    """The function that a text of assembly means: one instruction from a float32 to another, at any accuracy."""
    match = re.fullmatch(r"\s*(\w+)(?:\.approx|\.rn)?(?:\.ftz)?\.f32\s+\$0\s*,\s*\$1\s*;\s*", asm)
    return _INSTRUCTIONS.get(match.group(1)) if match else None


_INSTRUCTIONS: Final[Mapping[str, Any]] = MappingProxyType({
    "tanh": libdevice.tanh, "sin": libdevice.sin, "cos": libdevice.cos, "ex2": libdevice.exp2, "lg2": libdevice.log2,
    "rsqrt": libdevice.rsqrt, "sqrt": libdevice.sqrt, "rcp": libdevice.rcp_rn, "mov": _same,
})  # fmt: skip


def inline_asm_elementwise(asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any) -> Tile:
    """The few single instructions that kernels use for the speed of a GPU. Other assembly is refused."""
    function = _instruction(asm)
    if function is None:
        ops.inline_asm_elementwise(asm)
    return function(args[0]).to(dtype)


# --- the device -------------------------------------------------------------------------------------------------------


def gdc_wait() -> None:
    """Nothing: a launch begins when the one before is done."""


def gdc_launch_dependents() -> None:
    """Nothing: a launch begins when the one before is done."""


def compile_hint(ptr: Any, hint_name: Any, hint_val: Any = None) -> None:
    """Nothing: a hint for one compiler of Ascend chips."""


def num_threads() -> Any:
    """Threads of a program on a GPU with the usual four warps."""
    return 128


def num_warps() -> Any:
    """Warps of a program on a GPU."""
    return 4


@constexpr_function
def is_cuda() -> bool:
    return False


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    return False


# --- names ------------------------------------------------------------------------------------------------------------

# Public adapters, which stand before our own names of the language.
# fmt: off
ADAPTERS: Final = (
    "PropagateNan", "TRITON_MAX_TENSOR_NUMEL", "add", "atomic_load", "atomic_poll", "atomic_store", "block_type",
    "cdiv", "condition", "cumprod", "device_assert", "expect_zero", "fdiv", "inline_asm_elementwise",
    "item", "mul", "pi32_t", "rand4x", "ravel",
    "squeeze", "static_assert", "sub", "to_tensor", "topk", "unsqueeze",
)
INSIDE: Final = ("_experimental_descriptor_load", "_experimental_descriptor_store")
# Names of our language that `triton.language` has not: files ask with `hasattr`, and define them themselves.
NOT_OF_TRITON: Final = ("gelu", "logsumexp", "mean", "relu", "silu", "softplus", "std", "var")
# Names that Triton has, and has no more, for ours.
RENAMED: Final = (
    ("_experimental_make_tensor_descriptor", "make_tensor_descriptor"), ("float8e4", "float8e4nv"),
    ("uint32_to_uniform_float", "uint_to_uniform_float"), ("_aggregate", "aggregate"),
)
BUILTINS: Final = (
    ("tuple", builtins.tuple), ("slice", builtins.slice), ("CONSTEXPR_0", 0), ("libdevice", libdevice),
    ("constexpr_type", constexpr_type), ("str_to_ty", utils.str_to_ty),
)
# fmt: on
