"""Shows operators and their list as HTML in a notebook's cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.markup import Markup, card, folded, note, table, tag
from pypto.markup.colours import coloured

if TYPE_CHECKING:
    from pypto.library.registry import Registry
    from pypto.library.row import Operator


def operator_card(row: Operator) -> Markup:
    """Shows how an operator is called, what it computes, its kernels and its tolerances."""
    kernels = [(i.version, i.where, ", ".join(i.dtypes) or "all of the signature")
               for i in row.implementations]  # fmt: skip
    signature = row.signature
    results = [(spec.name, dtype) for spec in signature.outputs for dtype in spec.dtypes or signature.main_dtypes]
    exact = [(name, dtype.public, row.tolerance_of(name, dtype)) for name, dtype in results]
    parts = [
        tag("div", tag("code", coloured(row.text))),
        note(row.formula.replace("`", "")),
        table(("version", "platforms", "dtypes"), kernels),
        *([table(("result", "dtype", "tolerance"), exact)] if exact else []),
        *([folded("remarks", note(row.notes))] if row.notes else []),
        note(f"from: {row.source}"),
    ]
    return card(f"lib.{row.name}", *parts, note=row.doc)


def registry_card(rows: Registry) -> Markup:
    """Lists all operators with a line for each."""
    table_rows = [(tag("code", name), row.doc) for name, row in rows.items()]
    return card(f"{len(rows)} operators", table(("operator", "what it computes"), table_rows))
