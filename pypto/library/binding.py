"""Binds arguments to a signature: checks dtypes, sizes and conditions, and allocates results.

Binding writes nothing. It also checks integers that a kernel uses as memory positions: see `conditions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np

from pypto.backends.plugin import Plugin
from pypto.backends.registry import host, plugin_of
from pypto.errors.launch import UnsupportedArgument
from pypto.errors.library import (
    LostGradient,
    OperandDtype,
    OperandShape,
    OperandValue,
    OverlappingOperands,
    ScatteredOperand,
    UnrelatedSizes,
    UnstoredNaN,
    WrongOperands,
)
from pypto.ir.types import DType
from pypto.library.conditions import Range, Relation
from pypto.library.leading import LeadingDims, flat_info, outer_dimensions
from pypto.library.recording import RecordedArray
from pypto.library.signature import FREE, ArraySpec, Signature, is_pair, pair_of
from pypto.runtime.arrays import ArrayInfo, array_info, check_writable
from pypto.runtime.device_arrays import DeviceArray, host_view
from pypto.runtime.tensors import is_autograds

_MOST_WORK: Final = 10_000  # of numpy's exact test for overlaps


@dataclass(frozen=True, slots=True)
class Bound:
    """Checked arguments by name, sizes by name, the dtype of the first array, and free leading dimensions."""

    values: Mapping[str, Any]
    dims: Mapping[str, int]
    dtype: DType
    leading: LeadingDims | None = None

    def shape(self, spec: ArraySpec) -> tuple[int, ...]:
        """Returns the shape of an array, with all leading dimensions."""
        return spec.shape(self.dims, self.leading.shape if self.leading else None)


@dataclass(slots=True)
class Binder:
    """Checks one call against a signature."""

    operator: str
    signature: Signature
    effects: tuple[str, ...] = ()
    why_no_gradient: str = ""
    is_independent: bool = False  # whether each element of the free leading dimensions may have a launch of its own
    no_leading: str = ""  # why no array has free leading dimensions

    def bind(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> Bound:
        """Returns all arguments by name, with defaults, after every check has passed."""
        values = self.named(args, given)
        infos = {spec.name: self.info(spec, values[spec.name]) for spec in self.signature.inputs}
        given_infos, leading = dict(infos), self.flatten(infos)
        first = infos[self.signature.inputs[0].name]
        if first is None:
            self.refuse(f"`{self.signature.inputs[0].name}` cannot be None")
        dims = self.signature.sizes(values)
        self.check_relations(dims)
        present = [(spec, info) for spec in self.signature.inputs if (info := infos[spec.name]) is not None]
        for spec, info in present:
            self.bind_names(spec, info, dims)
        for spec, info in present:
            self.check(spec, info, dims, first.dtype)
        check_writable(self.operator, self.effects, given_infos)
        if self.has_pairs:
            self.check_apart(values)
        if not all(info.writable for _, info in present):
            self.check_gradients(present, first.dtype)
        read = self.signature.conditions.arrays
        elements = {spec.name: host_array(info).reshape(info.shape) for spec, info in present if spec.name in read}
        self.check_conditions(dims, elements)
        written = {spec.name: spec.shape(dims)[1:] for spec in self.signature.outputs if spec.is_free}
        return Bound(values, dims, first.dtype, leading and replace(leading, widths={**leading.widths, **written}))

    @property
    def has_pairs(self) -> bool:
        """Says whether a call updates several arrays."""
        return len(self.effects) > 1

    def check_apart(self, values: Mapping[str, Any]) -> None:
        """Refuses arrays that are updated and share memory, because each update would change the other."""
        for number, name in enumerate(self.effects):
            for other in self.effects[:number]:
                a, b = values[name], values[other]
                if type(a) is np.ndarray and type(b) is np.ndarray and not np.may_share_memory(a, b):
                    continue
                one, two = array_info(a, self.operator, name), array_info(b, self.operator, other)
                if one is not None and two is not None and share_memory(one, two):
                    raise OverlappingOperands(operator=self.operator, arg=name, other=other)

    def flatten(self, infos: dict[str, ArrayInfo | None]) -> LeadingDims | None:
        """Replaces arrays with free leading dimensions by their views with one; None if all have one."""
        ranks = {spec.name: len(spec.dims) - 1 for spec in self.signature.inputs if spec.is_free}
        free = {name: info for name in ranks if (info := infos[name]) is not None}
        if all(len(info.shape) == ranks[name] + 1 for name, info in free.items()):
            return None
        shapes = {name: info.shape[: len(info.shape) - ranks[name]] for name, info in free.items()}
        first = next(iter(shapes))
        for spec in self.signature.inputs:
            if spec.name in free and len(free[spec.name].shape) < ranks[spec.name]:
                self.wrong_shape(spec, free[spec.name], {})
            if spec.name in free and shapes[spec.name] != shapes[first]:
                self.wrong_shape(spec, free[spec.name], {}, shapes[first])
        outer = {name: outer_dimensions([info], len(shapes[first])) for name, info in free.items()}
        scattered = next((name for name in outer if outer[name]), None)
        if scattered is not None and not self.is_independent:
            strides, layout = free[scattered].strides, f"one stride for {self.signature.free}{FREE}"
            raise ScatteredOperand(operator=self.operator, arg=scattered, strides=strides, layout=layout)
        infos.update((name, flat_info(info, ranks[name])) for name, info in free.items())
        widths = {name: info.shape[len(shapes[first]) :] for name, info in free.items()}
        return LeadingDims(shapes[first], max(outer.values()), widths)

    def named(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments by name."""
        names = self.signature.names
        if len(args) > len(names):
            self.refuse(f"{len(args)} arguments were given, and it takes {len(names)}")
        values: dict[str, Any] = dict(self.signature.numbers)
        values |= {spec.name: None for spec in self.signature.inputs if spec.is_optional}
        positional = dict(zip(names, args, strict=False))
        for name in given:
            if name not in names:
                self.refuse(f"it has no argument `{name}`")
            if name in positional:
                self.refuse(f"`{name}` was given twice")
        values |= positional | dict(given)
        for name in names:
            if name not in values:
                self.refuse(f"`{name}` is missing")
        return values | {name: self.number(name, values[name]) for name in self.signature.numbers}

    def number(self, name: str, value: Any) -> Any:
        """Converts a number to the kind of its default; an integer may stand for a float."""
        default = self.signature.numbers[name]
        if isinstance(default, tuple):
            pair = pair_of(value)
            if not is_pair(pair):
                self.refuse(f"`{name}` is {value!r}, and it must be an integer or two")
            return tuple(map(int, pair))
        integral = not isinstance(default, float)
        if isinstance(value, (bool, np.bool_)):
            return int(value) if integral else float(value)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if integral or not isinstance(value, (float, np.floating)):
            kind = "an integer" if integral else "a number"
            self.refuse(f"`{name}` is {value!r}, and it must be {kind}")
        return float(value)

    def info(self, spec: ArraySpec, value: Any) -> ArrayInfo | None:
        """Returns the array behind an argument; None for an optional one that is missing."""
        if value is None and spec.is_optional:
            return None
        info = array_info(value, self.operator, spec.name)
        if info is None:
            self.refuse(f"`{spec.name}` is a {type(value).__name__}, and it must be an array")
        if info.device and place_in_force() is None:
            name = getattr(info.device, "name", info.device)
            way = f"call it inside of `with pto.device({name!r}):`, or pass `{spec.name}.numpy()`"
            raise UnsupportedArgument(kernel=self.operator, arg=spec.name, got=f"an array on {name}", way=way)
        return info

    def bind_names(self, spec: ArraySpec, info: ArrayInfo, dims: dict[str, int]) -> None:
        """Binds the names of dimensions; the first array that has a dimension defines its size."""
        if len(info.shape) != len(spec.dims):
            self.wrong_shape(spec, info, dims)
        for dim, size in zip(spec.dims, info.shape, strict=True):
            if dim.is_name:
                dims.setdefault(dim.text, size)

    def check(self, spec: ArraySpec, info: ArrayInfo, dims: Mapping[str, int], first: DType) -> None:
        """Checks the shape and dtype."""
        if info.shape != spec.shape(dims):
            self.wrong_shape(spec, info, dims)
        allowed = spec.dtypes or (first,)
        if info.dtype not in allowed:
            text = " or ".join(map(str, allowed))
            raise OperandDtype(operator=self.operator, arg=spec.name, dtype=info.dtype, allowed=text)
        self.check_layout(spec.name, info)

    def check_gradients(self, present: Sequence[tuple[ArraySpec, ArrayInfo]], first: DType) -> None:
        """Refuses calls that would lose a gradient: autograd records an argument, and a result has floats."""
        recorded = next((spec.name for spec, info in present if not info.writable and is_autograds(info.owner)), None)
        written = [spec.dtypes or (first,) for spec in self.signature.outputs]
        written += [(info.dtype,) for spec, info in present if spec.name in self.effects]
        if recorded is not None and any(dtype.is_float for dtypes in written for dtype in dtypes):
            raise LostGradient(operator=self.operator, arg=recorded, why=self.why_no_gradient)

    def check_layout(self, name: str, info: ArrayInfo) -> None:
        """Checks the strides against the layout that the signature requires."""
        conditions = self.signature.conditions
        expected, kind = 1, "contiguous" if name in conditions.contiguous else "contiguous_rows"
        if name not in getattr(conditions, kind) or 0 in info.shape:
            return
        for size, stride in reversed(list(zip(info.shape, info.strides, strict=True))):
            if size > 1 and stride != expected:
                raise ScatteredOperand(operator=self.operator, arg=name, strides=info.strides, layout=f"{kind}({name})")
            if kind == "contiguous_rows":
                return
            expected *= size

    def check_conditions(self, dims: Mapping[str, int], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Checks the relations of sizes, and the integers in arrays against the limits of the signature."""
        values = {**dims, **arrays}
        self.check_relations(values)
        for one in self.signature.conditions.ranges:
            if one.names <= values.keys() and (what := one.wrong(values)):
                self.refuse_value(one, what, values)

    def check_relations(self, values: Mapping[str, Any]) -> None:
        """Checks the relations of which all names are known."""
        for one in self.signature.conditions.relations:
            if one.names <= values.keys() and not one.holds(values):
                if one.arrays:
                    self.refuse_value(one, one.elements(values), values)
                known = ", ".join(f"{name} = {values[name]}" for name in sorted(one.names))
                text = self.signature.text
                raise UnrelatedSizes(operator=self.operator, condition=one.text, known=known, signature=text)

    def refuse_value(self, one: Relation | Range, what: str, values: Mapping[str, Any]) -> NoReturn:
        named = ", ".join(f"{name} = {values[name]}" for name in sorted(one.names - one.arrays) if name in values)
        known = f", with {named}" if named else ""
        raise OperandValue(
            operator=self.operator, what=what, condition=one.text, known=known, signature=self.signature.text
        )

    def wrong_shape(
        self, spec: ArraySpec, info: ArrayInfo, dims: Mapping[str, int], leading: tuple[int, ...] = ()
    ) -> NoReturn:
        named: dict[str, Any] = {str(dim): dims[dim.text] for dim in spec.dims if dim.text in dims}
        named |= {str(dim): leading for dim in spec.dims if dim.is_free and leading}
        known = f", with {', '.join(f'{name} = {size}' for name, size in named.items())}" if named else ""
        text, signature = ", ".join(map(str, spec.dims)), self.signature.text
        if self.no_leading and len(info.shape) > len(spec.dims):
            known += f"; {self.no_leading}"
        shape = info.shape
        raise OperandShape(
            operator=self.operator, arg=spec.name, shape=shape, dims=text, known=known, signature=signature
        )

    def refuse(self, problem: str) -> NoReturn:
        raise WrongOperands(operator=self.operator, problem=problem, signature=self.signature.text)


def share_memory(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Says whether two arrays of one place have a byte in common; True if the exact test takes too long."""
    if one.device is not two.device and one.device != two.device:
        return False
    ends = [(x.address + x.reach[0], x.address + x.reach[1]) for x in (one, two)]
    if not one.address or ends[0][1] <= ends[1][0] or ends[1][1] <= ends[0][0]:
        return False
    try:
        return np.shares_memory(placed(one), placed(two), max_work=_MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def placed(info: ArrayInfo) -> np.ndarray[Any, Any]:
    """Returns an array with a place and a layout, whose elements nobody may read: they may be a device's."""
    size = info.dtype.itemsize
    interface = {"data": (info.address, True), "shape": info.shape, "typestr": f"|V{size}", "version": 3,
        "strides": tuple(stride * size for stride in info.strides)}  # fmt: skip
    return np.asarray(type("Placed", (), {"__array_interface__": interface})())


def host_array(info: ArrayInfo) -> np.ndarray[Any, Any]:
    """Returns an array's integers in host memory; an array on a device is copied after its writer has finished."""
    owner = info.owner
    if isinstance(owner, np.ndarray):
        return owner
    if hasattr(owner, "detach"):
        array: np.ndarray[Any, Any] = owner.detach().cpu().numpy()
        return array
    return np.asarray(owner) if info.device else host_view(info)


def refuse_nan(operator: str, array: Any) -> None:
    """Raises an error where a kernel has found NaN, which the dtype of its results cannot represent."""
    info = array_info(array, operator, "nan")
    assert info is not None
    flags = host_array(info)
    if flags.any():
        raise UnstoredNaN(operator=operator, row=int(np.argwhere(flags)[0][0]))


def empty(like: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Allocates a result, or memory between two launches, of the same kind as an argument.

    Parameters
    ----------
    like : array
        A numpy array, an array on a device or a torch tensor; the result is of the same kind and place.
    shape : tuple of int
    dtype : DType

    Examples
    --------
    >>> from pypto.ir.types import bfloat16
    >>> empty(np.zeros(1), (2, 3), bfloat16).dtype.name
    'bfloat16'
    """
    return allocator(like, shape, dtype)(like)


def allocator(like: Any, shape: tuple[int, ...], dtype: DType) -> Callable[[Any], Any]:
    """Returns a function that allocates an array of this shape and dtype, of the same kind as its argument."""
    kind = dtype.numpy
    if isinstance(like, RecordedArray):
        return lambda _: like.allocate(shape, dtype)
    if isinstance(like, np.ndarray) and type(like) is not np.ndarray:
        return lambda like: np.empty_like(like, kind, "C", False, shape)
    if isinstance(like, DeviceArray):
        return lambda like: like.device.empty(shape, kind)
    if isinstance(like, np.ndarray) or not hasattr(like, "new_empty"):
        return lambda _: np.empty(shape, kind)
    import torch

    numbers = getattr(torch, dtype.public)
    if like.shape == shape and like.dtype == numbers and like.is_contiguous():
        allocate: Callable[[Any], Any] = torch.empty_like
        return allocate
    return lambda like: like.new_empty(shape, dtype=numbers)


def copied(value: Any) -> Any:
    """Copies an array with its strides; numbers stay as they are."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    return value.clone() if hasattr(value, "clone") else value


def backend_in_force() -> Plugin:
    """Returns the backend on which launches of this context run."""
    place = place_in_force()
    return host() if place is None else plugin_of(str(getattr(place, "name", place)))


def place_in_force() -> Any:
    """Returns the device on which launches of this context run; None for the host."""
    from pypto.compile import session
    from pypto.runtime.mode import MODE

    mode = MODE.get()
    return None if mode.interpret else mode.device or session().devices.default
