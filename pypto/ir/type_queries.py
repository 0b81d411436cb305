"""Type queries as in Triton: types of Tile IR answer `is_fp16()`, `element_ty` and the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pypto.ir.types import DType


class Answer(int):
    """What a type says of itself: a bool which, called as Triton's methods are, gives what Triton says."""

    called: bool

    def __call__(self) -> bool:
        return self.called

    def __repr__(self) -> str:
        return str(bool(self))


def answer(ours: bool, triton: bool | None = None) -> bool:
    """An `Answer`, which mypy takes for a bool, as no class can be one."""
    result = Answer(ours)
    result.called = ours if triton is None else triton
    return cast("bool", result)


YES: Final = answer(True)
NO: Final = answer(False)
OURS: Final = answer(True, False)


class TypeQueries:
    """A type with the queries of Triton's types, such as `is_fp16()` and `element_ty`."""

    if not TYPE_CHECKING:  # a misspelt name is still found by mypy

        def __getattr__(self, name: str) -> Any:
            if name in AS_IN_TRITON:
                return AS_IN_TRITON[name](self)
            if name not in questions():
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return answer(hasattr(self, "kind") and questions()[name](self))


def name(t: Any) -> str:
    """What Triton calls a type."""
    if hasattr(t, "pointee"):
        return f"{'const_' if t.const else ''}pointer<{name(t.pointee)}>"
    if hasattr(t, "shape"):
        return f"<{t.shape}, {name(t.elem)}>" if t.shape else name(t.elem)
    return str(t.triton)


# What pointers and tiles answer too, and what is no question.
AS_IN_TRITON: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType({
    "is_ptr": lambda t: answer(hasattr(t, "pointee")), "is_block": lambda t: answer(hasattr(t, "shape")),
    "is_const": lambda t: answer(getattr(t, "const", False)), "scalar": lambda t: getattr(t, "elem", t),
    "element_ty": lambda t: getattr(t, "pointee", getattr(t, "elem", t)),
    **dict.fromkeys(("primitive_bitwidth", "int_bitwidth"), lambda t: getattr(t.scalar, "bits", 64)),
    "fp_mantissa_width": lambda d: d.format[0], "exponent_bias": lambda d: d.format[1], "name": name,
    "get_int_max_value": lambda d: lambda: d.integer_range[1],
    "get_int_min_value": lambda d: lambda: d.integer_range[0], "numel": lambda t: t.size,
    "nbytes": lambda t: t.size * t.element_ty.itemsize, "get_block_shapes": lambda t: lambda: t.shape,
    "with_element_ty": lambda t: lambda elem: t.with_elem(elem) if hasattr(t, "shape") else elem,
})  # fmt: skip


def _is(triton: str) -> Callable[[DType], bool]:
    return lambda d: d.triton == triton


@cache
def questions() -> Mapping[str, Callable[[DType], bool]]:
    """Those that element types alone say yes to."""
    from pypto.ir.types import ALL_DTYPES, void

    return MappingProxyType({
        **{f"is_{d.triton}": _is(d.triton) for d in (*ALL_DTYPES, void)},
        "is_fp8": lambda d: d.bits == 8 and d.kind in ("float", "bits"),
        "is_floating": lambda d: d.kind in ("float", "bits"),
        "is_standard_floating": lambda d: d.kind == "float" and d.bits > 8,
        "is_int_signed": lambda d: d.kind == "int", "is_int_unsigned": lambda d: d.kind in ("uint", "bool"),
        **dict.fromkeys(("is_int", "is_bool"), lambda d: False),
    })  # fmt: skip
