"""Replaces Inductor's `triton_heuristics` in generated text: it chooses blocks that suit a CPU, and launches kernels.

Inductor's own decorators try blocks for a GPU. Here a block is chosen from the sizes that Inductor expects: as large as
suits the caches, because the CPU backend splits it into vectors itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.compat.triton.kernels import JITFunction
from pypto.torch.inductor.generated import Blocks, Candidate, Generated
from pypto.torch.inductor.strides import strides
from pypto.torch.inductor.user_kernels import UserKernel

Decorator = Callable[[JITFunction], "Generated"]

_POINTWISE: Final = 1024  # elements of a program
_SIDE: Final = 32  # of a square tile
_ROW: Final = 256  # elements of a step along a reduction
_COLUMNS: Final = 512  # outputs side by side, where a reduction runs over rows
_OTHERS: Final = MappingProxyType({"YBLOCK": 1, "ZBLOCK": 1})  # of outputs of a reduction
_SHORT: Final = 512  # elements of short rows in one program


def decorator(blocks: Callable[[JITFunction], Blocks], inductor_meta: Mapping[str, Any]) -> Decorator:
    """Returns a decorator that builds a kernel with those of the blocks for which it has a parameter."""

    def decorate(fn: JITFunction) -> Generated:
        chosen = {name: x for name, x in blocks(fn).items() if name in fn.arg_names}
        return Generated(fn, chosen, inductor_meta)

    return decorate


def least(most: int, hint: int) -> int:
    """Returns the least power of two that covers a size, and `most` where that is smaller."""
    return max(1, min(most, 1 << max(0, hint - 1).bit_length()))


def pointwise(size_hints: Mapping[str, int], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses blocks of elementwise kernels of up to three dimensions: rows of stride 1, or squares for transposes."""

    def blocks(fn: JITFunction) -> Blocks:
        x, y, z = (size_hints.get(name, 1) for name in "xyz")
        if len(size_hints) > 1 and strides(fn.src).crossed:
            return {"XBLOCK": least(_SIDE, x), "YBLOCK": least(_SIDE, y), "ZBLOCK": 1}
        row = least(_POINTWISE, x)
        rows = least(max(1, _POINTWISE // row), y)
        return {"XBLOCK": row, "YBLOCK": rows, "ZBLOCK": least(max(1, _POINTWISE // row // rows), z)}

    return decorator(blocks, inductor_meta)


def reduction(size_hints: Mapping[str, int], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses blocks for a loop over the reduced elements: along a row, or over rows with adjacent outputs."""

    def blocks(fn: JITFunction) -> Blocks:
        x, r0, r1 = (size_hints.get(name, 1) for name in ("x", "r0_", "r1_"))
        source_strides = strides(fn.src)
        if source_strides.outer:
            return {"XBLOCK": source_strides.columns(least(_COLUMNS, x)), "R0_BLOCK": 1, "R1_BLOCK": 1, **_OTHERS}
        if r1 > 1:
            row = least(_ROW, r1)
            return {"XBLOCK": 1, "R0_BLOCK": least(max(1, _ROW // row), r0), "R1_BLOCK": row, **_OTHERS}
        return {"XBLOCK": 1, "R0_BLOCK": least(_ROW, r0), **_OTHERS}

    return decorator(blocks, inductor_meta)


def persistent_reduction(size_hints: Mapping[str, int], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses one block for all reduced elements."""

    def blocks(fn: JITFunction) -> Blocks:
        x, r = size_hints.get("x", 1), size_hints.get("r0_", 1) * size_hints.get("r1_", 1)
        source_strides = strides(fn.src)
        x = source_strides.columns(least(_COLUMNS, x)) if source_strides.outer else least(max(1, _SHORT // r), x)
        return {"XBLOCK": x, **_OTHERS}

    return decorator(blocks, inductor_meta)


def foreach(inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Chooses blocks for several kernels in one launch."""
    return decorator(lambda _: {"XBLOCK": _POINTWISE, "YBLOCK": _SIDE}, inductor_meta)


def template(inductor_meta: Mapping[str, Any], **_: Any) -> Callable[[JITFunction], Candidate]:
    """Builds the candidate of a template, whose blocks are constants in its text."""
    return lambda fn: Candidate(fn, {}, inductor_meta)


def fixed_config(config: Mapping[str, Any], inductor_meta: Mapping[str, Any], **_: Any) -> Decorator:
    """Uses the blocks that Inductor chose."""
    return decorator(lambda _: dict(config), inductor_meta)


def user_autotune(
    configs: Any, triton_meta: Mapping[str, Any], inductor_meta: Mapping[str, Any], **_: Any
) -> Decorator:
    """Builds the kernel of a user, with the constants and configurations that he gave it."""
    return lambda fn: UserKernel(fn, configs, triton_meta, inductor_meta)
