"""Sampling of independent items, so that a large size can be checked although its reference is slow.

A row may name a dimension as its `items`: each item along it depends only on the item's own slices of the arguments.
The kernels compute all items, and the reference only a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pypto.library.row import Operator
    from pypto.library.signature import ArraySpec


@dataclass(frozen=True, slots=True)
class ItemSample:
    """A sample of an operator's items, by index along their dimension.

    Examples
    --------
    >>> from pypto.library import rows
    >>> sample = ItemSample("t", np.array([0, 3]))
    >>> x = np.arange(10).reshape(5, 2)
    >>> sample.of(rows["silu"].signature.inputs, {"x": x})["x"].tolist()
    [[0, 1], [6, 7]]
    """

    dim: str
    numbers: Any

    def of(self, specs: Iterable[ArraySpec], values: Mapping[str, Any]) -> dict[str, Any]:
        """Slices the arrays that have the dimension to these items; other arrays and numbers stay as they are."""
        return dict(values) | {s.name: self.slices(s, values[s.name]) for s in specs if values.get(s.name) is not None}

    def slices(self, spec: ArraySpec, array: Any) -> Any:
        """Slices one array."""
        for axis, dim in enumerate(spec.dims):
            if dim.text == self.dim:
                array = np.take(np.asarray(array), self.numbers, axis=axis)
        return array


def sample_items(row: Operator, values: Mapping[str, Any], most: int, rng: np.random.Generator) -> ItemSample | None:
    """Samples the first item, the last and random others, `most` in all; None means that all are compared."""
    total = row.bind((), values).dims.get(row.items, 0)
    if not 0 < most < total:
        return None
    between = 1 + rng.permutation(total - 2)[: max(most - 2, 0)]
    return ItemSample(row.items, np.sort(np.concatenate([[0, total - 1][:most], between])))
