"""Schemas and fakes of operators from the signatures of rows: named dimensions, dtypes, numbers and effects."""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, Final

from pypto.errors.library import OperandDtype, OperandShape, UnrelatedSizes, WrongOperands
from pypto.ir.types import DType
from pypto.library.signature import ArraySpec, Dim, Signature, function
from pypto.runtime.arrays import dtype_of

torch: ModuleType = importlib.import_module("torch")
VERSION: Final = "version"  # the argument that names an implementation
_TYPES: Final = {bool: "SymInt", int: "SymInt", float: "float"}


def schema_of(signature: Signature, effects: Collection[str]) -> str:
    """Returns the schema of an operator, without its name.

    Numbers have their defaults, optional arrays may be None, and effects are mutated arguments.

    Examples
    --------
    >>> signature = Signature.parse("cache[n, d] f32, index[t] i32, bias[d]?, eps=1e-6 -> y[n, d]")
    >>> schema_of(signature, ("cache",))
    '(Tensor(a!) cache, Tensor index, Tensor? bias=None, float eps=1e-06, *, str version="") -> Tensor'
    """
    specs = {spec.name: spec for spec in signature.inputs}
    aliases = {name: f"({chr(ord('a') + n)}!)" for n, name in enumerate(effects)}
    items = [
        array_of(specs[name], aliases.get(name, "")) if name in specs else number_of(name, signature.numbers[name])
        for name in signature.names
    ]
    results = ["Tensor"] * len(signature.outputs)
    returned = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f'({", ".join(items)}, *, str {VERSION}="") -> {returned}'


def array_of(spec: ArraySpec, alias: str) -> str:
    return f"Tensor{alias}? {spec.name}=None" if spec.is_optional else f"Tensor{alias} {spec.name}"


def number_of(name: str, default: Any) -> str:
    if isinstance(default, tuple):
        return f"int[2] {name}={list(default)}"
    value = int(default) if isinstance(default, bool) else default
    return f"{_TYPES[type(default)]} {name}={value!r}"


def fake_results(operator: str, signature: Signature, values: Mapping[str, Any]) -> Any:
    """Returns the results of a call as tensors without elements, after a check of ranks, sizes and dtypes.

    Sizes may be symbolic. Conditions on elements of arrays are not checked, because there are none.

    Parameters
    ----------
    operator : str
    signature : Signature
    values : mapping of str
        All arguments by name.

    Raises
    ------
    OperandShape, OperandDtype, UnrelatedSizes, WrongOperands
    """
    first = values[signature.inputs[0].name]
    main = dtype_of(first.dtype)
    present = [(spec, values[spec.name]) for spec in signature.inputs if values[spec.name] is not None]
    dims = {n: x for n, x in signature.sizes(values).items() if not isinstance(x, torch.SymFloat)}
    sizes: dict[str, tuple[Any, ...]] = {}
    leading: dict[str, tuple[Any, ...]] = {}
    for spec, x in present:
        check_dtype(operator, spec, x, main)
        lead = x.dim() - len(spec.dims) + 1
        if lead < 0 or (lead != 1 and not spec.is_free):
            raise wrong_shape(operator, signature, spec, x)
        sizes[spec.name] = (math.prod(x.shape[:lead]), *x.shape[lead:]) if spec.is_free else tuple(x.shape)
        if spec.is_free and leading.setdefault(signature.free, tuple(x.shape[:lead])) != tuple(x.shape[:lead]):
            raise wrong_shape(operator, signature, spec, x)
        for dim, size in zip(spec.dims, sizes[spec.name], strict=True):
            if dim.is_name:
                dims.setdefault(dim.text, size)
    for spec, x in present:
        if not all(size_of(dim, dims) == size for dim, size in zip(spec.dims, sizes[spec.name], strict=True)):
            raise wrong_shape(operator, signature, spec, x)
    check_relations(operator, signature, dims)
    results = [
        first.new_empty(
            [size for dim in spec.dims for size in (leading[dim.text] if dim.is_free else (size_of(dim, dims),))],
            dtype=getattr(torch, (spec.dtypes[0] if spec.dtypes or main is None else main).public),
        )
        for spec in signature.outputs
    ]
    return results[0] if len(results) == 1 else tuple(results) or None


def size_of(dim: Dim, dims: Mapping[str, Any]) -> Any:
    """Computes a size, which stays symbolic where those that it depends on are."""
    return dims[dim.text] if dim.text in dims else function(dim.text)(dims)


def check_dtype(operator: str, spec: ArraySpec, x: Any, main: DType | None) -> None:
    dtype = dtype_of(x.dtype)
    allowed = spec.dtypes or (main,)
    if dtype not in allowed:
        text = " or ".join(map(str, allowed))
        raise OperandDtype(operator=operator, arg=spec.name, dtype=dtype or x.dtype, allowed=text)


def check_relations(operator: str, signature: Signature, dims: Mapping[str, Any]) -> None:
    """Checks the relations of sizes that read no elements."""
    for one in signature.conditions.relations:
        if not one.arrays and one.names <= dims.keys() and not one.holds(dims):
            known = ", ".join(f"{name} = {dims[name]}" for name in sorted(one.names))
            raise UnrelatedSizes(operator=operator, condition=one.text, known=known, signature=signature.text)


def wrong_shape(operator: str, signature: Signature, spec: ArraySpec, x: Any) -> OperandShape:
    text = ", ".join(map(str, spec.dims))
    shape = tuple(x.shape)
    return OperandShape(operator=operator, arg=spec.name, shape=shape, dims=text, known="", signature=signature.text)


def arguments(operator: str, signature: Signature, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all arguments by name; torch leaves out those that have their default."""
    values: dict[str, Any] = {spec.name: None for spec in signature.inputs if spec.is_optional}
    values |= signature.numbers
    values |= dict(zip(signature.names, args, strict=False)) | dict(given)
    missing = next((name for name in signature.names if name not in values), None)
    if missing is not None:
        raise WrongOperands(operator=operator, problem=f"`{missing}` is missing", signature=signature.text)
    return values
