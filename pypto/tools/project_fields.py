"""Parameters of an operator project: C++ types, and names that neither C++ nor the project uses already."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.base import Slot
from pypto.ir.types import DType
from pypto.runtime.arrays import ArrayInfo, scalar_bits

TEMPLATES: Final = Path(__file__).resolve().parent / "project_files"
_TYPES: Final = MappingProxyType(
    {"f32": "float", "f64": "double", "f16": "half_bits", "bf16": "bfloat_bits", "i1": "bool"})  # fmt: skip

_SIZE: Final = re.compile(r"\w+_(shape|stride)\d+")  # names that sizes and strides of arguments have


def c_type(dtype: DType) -> str:
    """The C++ type of an element; the two 16-bit floats are their bits.

    Examples
    --------
    >>> from pypto.ir.types import float16, uint8
    >>> c_type(float16), c_type(uint8)
    ('half_bits', 'uint8_t')
    """
    return _TYPES.get(dtype.mnemonic) or f"{'u' if dtype.kind == 'uint' else ''}int{dtype.bits}_t"


@functools.cache
def template_words() -> frozenset[str]:
    """Identifiers of the templates of C++, of two letters and more: an argument must have none of them as its name.

    Templates use single letters in functions of their own alone, where no argument is.
    """
    texts = (path.read_text(encoding="utf-8") for path in TEMPLATES.glob("*.*.txt"))
    code = (re.sub(r'//[^\n]*|"[^"\n]*"|\$\{?\w+\}?', " ", text) for text in texts)
    return frozenset(word for text in code for word in re.findall(r"[A-Za-z_]\w+", text))


def free_names(names: Iterable[str], symbol: Callable[[str], str]) -> dict[str, str]:
    """Choose a C++ name for each argument.

    The name is the user's where it can be. It gets a suffix where C++, a header or the project has the name for
    something else. `symbol` writes characters beyond ASCII by their codes.

    Examples
    --------
    >>> free_names(["x", "stream", "x_shape0"], str)
    {'x': 'x', 'stream': 'stream_arg', 'x_shape0': 'x_shape0_arg'}
    """
    chosen: dict[str, str] = {}
    for name in dict.fromkeys(names):
        text = symbol(name.replace(".", "_"))
        while text in template_words() or text in chosen.values() or _SIZE.fullmatch(text):
            text += "_arg"
        chosen[name] = text
    return chosen


@dataclass(frozen=True)
class Field:
    """A parameter of the kernel: its slot, its value in the test, and its argument's name in C++."""

    slot: Slot
    value: Any
    argument: str

    @property
    def name(self) -> str:
        """Its name in C++: the argument's, or that of one of its sizes or strides."""
        is_whole = self.slot.kind in ("ptr", "scalar")
        return self.argument if is_whole else f"{self.argument}_{self.slot.kind}{self.slot.dim}"

    @property
    def type(self) -> str:
        """Its C++ type in the launcher's record of arguments."""
        number = "uint16_t" if self.is_half else c_type(self.slot.dtype)
        return {"ptr": "void*", "scalar": number}.get(self.slot.kind, "int64_t")

    @property
    def is_half(self) -> bool:
        """Whether it is a number for which C++ has no type, so that its bits are passed."""
        return self.slot.kind == "scalar" and self.slot.dtype.is_float and self.slot.dtype.bits == 16

    @property
    def literal(self) -> str:
        """Its value in the test: a number, or the name of the variable that holds the pointer."""
        if self.slot.kind == "ptr":
            return self.name
        if self.is_half:
            return str(scalar_bits(self.value, self.slot.dtype))
        if self.slot.kind == "scalar" and self.slot.dtype.is_float:
            text = repr(float(self.value))
            return f"{text}f" if math.isfinite(self.value) else text.replace("inf", "HUGE_VALF").replace("nan", "NAN")
        return str(self.value).lower()


def value_of(slot: Slot, info: Any) -> Any:
    """What a launch passes for a slot; for a pointer, the array."""
    if not isinstance(info, ArrayInfo):
        return info
    owner = {"ptr": info.owner, "shape": info.shape, "stride": info.strides}[slot.kind]
    return owner if slot.kind == "ptr" else owner[slot.dim]
