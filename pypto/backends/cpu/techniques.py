"""Techniques of code generation: optional optimisations that emitters of LLVM text decide on while they write.

Each is a row of the pass list (see `pipeline`) without IR of its own before and after. An emitter asks `is_enabled`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function
from pypto.passes.manager import Pass


def technique(name: str, reason: str, unless: tuple[str, ...] = (), needs: str = "") -> Pass:
    """A row of the list. Code is right without any technique."""
    return Pass(name, None, reason, needs, unless, optional=True)


# In the order of a kernel's text: the program loop, a nest, its accesses, single instructions; then products.
TECHNIQUES: Final = (
    technique("interchange", "while nests are fused: loops change their order where two nests become one by that"),
    technique("outlining", "LLVM's time grows faster than a function does: large ones become several", ("profile",)),
    technique("pipelined_reduction", "the loads of the next program run beside the sums of this one: a check or a timed"
        " statement belongs to one program", ("checked", "profile")),
    technique("prefetch", "the last reader of a nest asks for what the next program loads"),
    technique("persistent_loops", "turns of a loop over rows prefetch and stream as programs do"),
    technique("peeling", "chunks of lanes that exist as a whole need no mask"),
    technique("trip_count", "the loop along the lanes ends behind the last element that exists"),
    technique("nan_speculation", "a maximum is one instruction where no NaN takes part"),
    technique("load_hoisting", "loads wait for stores before them whose addresses look alike"),
    technique("register_transpose", "squares that are read one way and stored the other are transposed in registers"),
    technique("nontemporal_stores", "launches that move more than the last cache holds store past it"),
    technique("split_stores", "a register that lies across two cache lines is stored in halves"),
    technique("interleaved_access", "small strides are read as whole registers and shuffled, not gathered"),
    technique("bf16_rounding", "one instruction rounds float32 to bfloat16"),
    technique("reciprocal_division", "quotients by one number or of small integers need no division"),
    technique("scaling_instructions", "powers of two are multiplied by one instruction"),
    technique("in_place_operands", "a product reads a loaded operand in its array, without a copy", needs="dot"),
    technique("amx", "one instruction multiplies tiles of bfloat16 or int8", needs="dot"),
    technique("bf16_split", "float32 is multiplied as terms of bfloat16, where a dot allows it", needs="dot"),
    technique("panel_reuse", "programs that follow one another use the same packed panels", needs="dot"),
    technique("conv_window", "products of a convolution share the rows that they read", needs="dot"),
    technique("skinny_gemm", "a product of few rows reads its right side once, as it lies", needs="dot"),
    technique("direct_store", "a product stores its whole result itself; a check belongs to the store",
        ("checked",), needs="dot"),
    technique("epilogue", "what comes of a product is computed block by block; checks and times belong to the nest",
        ("checked", "profile"), needs="dot"),
)  # fmt: skip
_BY_NAME: Final = MappingProxyType({row.name: row for row in TECHNIQUES})


def is_enabled(function: Function, name: str) -> bool:
    """Whether a kernel has a technique switched on."""
    return _BY_NAME[name].is_enabled(function.attrs)
