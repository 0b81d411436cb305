"""Signatures as text: arrays with named dimensions and dtypes, numbers with defaults, and result arrays."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeGuard

import numpy as np

from pypto.errors.library import WrongSignature
from pypto.ir.types import DTYPE_BY_NAME, DType
from pypto.library.conditions import Conditions, names_in
from pypto.library.expressions import Function, compiled

Pair = tuple[int, int]
Number = int | float | bool | Pair
_ARRAY: Final = re.compile(r"(?P<name>\w+)\[(?P<dims>[^\]]*)\](?P<optional>\?)?\s*(?P<dtypes>[\w|]+)?")
_NUMBER: Final = re.compile(r"(?P<name>\w+)\s*=\s*(?P<default>[^\s]+)")
_SPLIT: Final = re.compile(r",(?![^\[]*\])(?![^(]*\))")
FREE: Final = "..."  # behind the name of a dimension that stands for any number of leading ones


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension: a name that arrays bind, a size, or an expression of bound names.

    Parameters
    ----------
    text : str
    is_free : bool
        Whether it stands for any number of leading dimensions, whose product is its size.

    Examples
    --------
    >>> Dim("2*d").size({"d": 64})
    128
    """

    text: str
    is_free: bool = False

    def __str__(self) -> str:
        return f"{self.text}{FREE}" if self.is_free else self.text

    @property
    def is_name(self) -> bool:
        """Says whether an array may bind it."""
        return self.text.isidentifier()

    @property
    def names(self) -> frozenset[str]:
        """Returns the names that it depends on."""
        return names_in(expression(self.text))

    def size(self, known: Mapping[str, int]) -> int:
        """Computes the size from the sizes of the names."""
        return known[self.text] if self.text in known else int(function(self.text)(known))


@lru_cache(maxsize=1024)
def expression(text: str) -> ast.expr:
    """Parses the expression of a dimension; results are cached, because calls need them often."""
    return ast.parse(text, mode="eval").body


@lru_cache(maxsize=1024)
def function(text: str) -> Function:
    """Compiles a dimension to a function of the sizes that it depends on."""
    return compiled(expression(text))


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array of a signature. Without dtypes, it has the dtype of the signature's first array."""

    name: str
    dims: tuple[Dim, ...]
    dtypes: tuple[DType, ...] = ()
    is_optional: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Returns the names of dimensions that its shape depends on."""
        return frozenset().union(*(dim.names for dim in self.dims))

    @property
    def is_free(self) -> bool:
        """Says whether any number of leading dimensions may stand for the first one."""
        return bool(self.dims) and self.dims[0].is_free

    def shape(self, known: Mapping[str, int], leading: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Computes the shape after all names are bound, with all leading dimensions if they are given."""
        if leading is not None and self.is_free:
            return (*leading, *(dim.size(known) for dim in self.dims[1:]))
        return tuple(dim.size(known) for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments and results of an operator, parsed once from text.

    Parameters
    ----------
    text : str
        As in ``"x[t, d] bf16|f32, g[d], bias[d]?, eps=1e-6 -> y[t, d], s[t] f32"``. A question mark says that an
        array may be None. A number may also be the name of a dimension. A pair, ``stride=(1,1)``, is given as one
        number or as two, of height and width, and names the sizes `stride_h` and `stride_w`. In ``x[t..., d]``, any
        number of leading dimensions stand for t, which is their product; all arrays with t have the same ones. After
        the results, `where` states conditions of sizes and integers: ``"... -> loss[t] f32 where labels < n"``; see
        `pypto.library.conditions`.

    Examples
    --------
    >>> signature = Signature.parse("x[t, d] bf16|f32, g[d], eps=1e-6 -> y[t, d], scale[t] f32")
    >>> [array.name for array in signature.inputs], dict(signature.numbers), len(signature.outputs)
    (['x', 'g'], {'eps': 1e-06}, 2)
    """

    text: str
    inputs: tuple[ArraySpec, ...]
    numbers: Mapping[str, Number]
    outputs: tuple[ArraySpec, ...]
    names: tuple[str, ...]
    conditions: Conditions

    @staticmethod
    def parse(text: str) -> Signature:
        """Parses a signature.

        Raises
        ------
        WrongSignature
            If the text is not a signature.
        """
        before, arrow, after = text.partition("->")
        after, _, where = f"{after} ".partition(" where ")
        if not arrow:
            raise WrongSignature(text=text, problem="it has no arrow")
        items = [*_items(text, before)]
        inputs = tuple(item for item in items if isinstance(item, ArraySpec))
        numbers = dict(item for item in items if isinstance(item, tuple))
        outputs = tuple(item for item in _items(text, after) if isinstance(item, ArraySpec))
        names = tuple(item.name if isinstance(item, ArraySpec) else item[0] for item in items)
        if not inputs or not inputs[0].dtypes:
            raise WrongSignature(text=text, problem="its first item is no array with a dtype")
        if len({spec.dims[0].text for spec in (*inputs, *outputs) if spec.is_free}) > 1:
            raise WrongSignature(text=text, problem="it has two free leading dimensions")
        return Signature(text, inputs, numbers, outputs, names, _conditions(text, where, (*inputs, *outputs), numbers))

    def sizes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the integers among the values of numbers by the names of sizes, two for a pair."""
        sizes: dict[str, Any] = {}
        for name, default in self.numbers.items():
            if isinstance(default, tuple):
                sizes |= zip(pair_names(name), pair_of(values[name]), strict=True)
            elif not isinstance(values[name], float):
                sizes[name] = values[name]
        return sizes

    @property
    def free(self) -> str:
        """Returns the name of the free leading dimensions; empty if there are none."""
        return next((spec.dims[0].text for spec in self.inputs if spec.is_free), "")

    @property
    def main_dtypes(self) -> tuple[DType, ...]:
        """Returns the dtypes of the first array, which arrays without dtypes share."""
        return self.inputs[0].dtypes


def _items(text: str, part: str) -> Iterator[ArraySpec | tuple[str, Number]]:
    for item in filter(None, map(str.strip, _SPLIT.split(part))):
        if array := _ARRAY.fullmatch(item):
            yield _array(text, array)
        elif number := _NUMBER.fullmatch(item):
            yield number["name"], _number(text, number["default"])
        else:
            raise WrongSignature(text=text, problem=f"`{item}` is neither an array nor a number")


def _conditions(text: str, where: str, arrays: tuple[ArraySpec, ...], numbers: Mapping[str, Number]) -> Conditions:
    try:
        conditions = Conditions.parse(where, {spec.name for spec in arrays})
    except ValueError as error:
        raise WrongSignature(text=text, problem=str(error)) from None
    known = {name for spec in arrays for name in (spec.name, *spec.names)} | numbers.keys()
    known |= {part for name, default in numbers.items() if isinstance(default, tuple) for part in pair_names(name)}
    for name in (
        *sorted(conditions.open | conditions.contiguous | conditions.contiguous_rows),
        *(name for one in conditions.relations + conditions.ranges for name in sorted(one.names)),
    ):
        if name not in known:
            raise WrongSignature(text=text, problem=f"its conditions name `{name}`, which is not there")
    return conditions


def _number(text: str, default: str) -> Number:
    try:
        value = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, (int, float)) and not is_pair(value):
        raise WrongSignature(text=text, problem=f"`{default}` is no number")
    number: Number = value
    return number


def pair_names(name: str) -> tuple[str, str]:
    """Returns the names of the sizes of a pair."""
    return f"{name}_h", f"{name}_w"


def is_pair(value: Any) -> TypeGuard[Pair]:
    """Says whether a value is a tuple of two integers."""
    return isinstance(value, tuple) and len(value) == len("hw") and all(isinstance(x, (int, np.integer)) for x in value)


def pair_of(value: Any) -> tuple[Any, ...]:
    """Returns a sequence as a tuple, and one value twice."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def _array(text: str, match: re.Match[str]) -> ArraySpec:
    parts = [part.strip() for part in match["dims"].split(",") if part.strip()]
    dims = tuple(Dim(part.removesuffix(FREE), part.endswith(FREE)) for part in parts)
    if any(dim.is_free and (n or not dim.is_name) for n, dim in enumerate(dims)):
        raise WrongSignature(text=text, problem=f"`{FREE}` stands behind the name of the first dimension of an array")
    names = match["dtypes"].split("|") if match["dtypes"] else []
    for name in names:
        if name not in DTYPE_BY_NAME:
            raise WrongSignature(text=text, problem=f"`{name}` is no dtype; there are {', '.join(DTYPE_BY_NAME)}")
    for dim in dims:
        try:
            function(dim.text)
        except (SyntaxError, ValueError):
            raise WrongSignature(text=text, problem=f"`{dim.text}` is no dimension") from None
    return ArraySpec(match["name"], dims, tuple(DTYPE_BY_NAME[n] for n in names), bool(match["optional"]))
