"""Rows of `pypto.library` as operators of torch: `torch.ops.pypto.<name>`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

from pypto import __version__, library
from pypto.errors.library import LostGradient
from pypto.library.row import Operator
from pypto.torch.operators.definition import ROWS, OperatorDefinition, operators
from pypto.torch.signatures import arguments, fake_results, schema_of


def register_rows() -> None:
    """Registers the operators of all rows, and of those that are registered later."""
    library.rows.watch(register_row)


def register_row(row: Operator) -> None:
    """Registers the operator of a row; it replaces that of a row of this name."""
    operators().define(row_definition(row))


def row_definition(row: Operator) -> OperatorDefinition:
    """Returns what torch is told of a row."""
    signature = row.signature

    def fake(*args: Any, version: str = "", **given: Any) -> Any:
        return fake_results(row.name, signature, arguments(row.name, signature, args, given))

    def refuse(arg: str) -> NoReturn:
        raise LostGradient(operator=row.name, arg=arg, why=row.why_no_gradient)

    floats = [spec.dtypes or signature.main_dtypes for spec in signature.outputs]
    floats += [spec.dtypes or signature.main_dtypes for spec in signature.inputs if spec.name in row.effects]
    return OperatorDefinition(
        ROWS,
        row.name,
        schema_of(signature, row.effects),
        tuple((name, signature.numbers.get(name)) for name in signature.names),
        row,
        fake,
        flattened(row) if row.gradient is not None and signature.free else row.gradient,
        refuse,
        tuple(spec.name for spec in signature.outputs),
        any(dtype.is_float for dtypes in floats for dtype in dtypes),
        row.effects,
        item_axes(row),
        row.is_elementwise,
        is_free=bool(signature.free) and row.items == signature.free,
        facts=f"{__version__} {row.text}",
    )


def flattened(row: Operator) -> Callable[[Any, Any], Mapping[str, Any]]:
    """Returns the gradient of a row, which sees one dimension in place of the free leading ones."""
    ranks = {spec.name: len(spec.dims) for spec in (*row.signature.inputs, *row.signature.outputs) if spec.is_free}
    ranks |= {f"d_{spec.name}": len(spec.dims) for spec in row.signature.outputs if spec.is_free}

    def flat(x: Any, rank: int) -> Any:
        return x.unsqueeze(0) if x.dim() < rank else x.flatten(0, x.dim() - rank)

    def gradient(torch: Any, v: Any) -> Mapping[str, Any]:
        assert row.gradient is not None
        values = {n: x if x is None or n not in ranks else flat(x, ranks[n]) for n, x in vars(v).items()}
        gradients = row.gradient(torch, SimpleNamespace(**values))
        return {n: x.reshape(getattr(v, n).shape) if n in ranks else x for n, x in gradients.items()}

    return gradient


def item_axes(row: Operator) -> Mapping[str, int]:
    """Returns the axis of the items of each array that has one; none where other sizes depend on their number."""
    signature = row.signature
    specs = (*signature.inputs, *signature.outputs)
    is_used = any(row.items in dim.names and dim.text != row.items for spec in specs for dim in spec.dims)
    if not row.items or is_used or any(row.items in one.names for one in signature.conditions.relations):
        return {}
    return {spec.name: n for spec in specs for n, dim in enumerate(spec.dims) if dim.text == row.items}
