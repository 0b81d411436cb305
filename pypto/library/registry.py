"""The registry maps names to rows: those of the package, loaded on first use, and those of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Final

from pypto.errors.library import NoSuchOperator
from pypto.errors.routing import AlreadyRegistered
from pypto.library.row import Operator
from pypto.markup import Shown
from pypto.options import suggestion

# Each module has a tuple `ROWS`; the documentation has the same order.
MODULES: Final = (
    "norms", "activations", "attention_rows.rope", "quantized_rows.quant", "quantized_rows.int8_activations",
    "quantized_rows.qat", "quantized_rows.mx", "quantized_rows.weights", "transforms", "attention_rows.paged",
    "attention_rows.softmax_attention", "attention_rows.varlen", "attention_rows.int8_cache",
    "attention_rows.window", "attention_rows.block_sparse", "attention_rows.mla", "attention_rows.indexer",
    "attention_rows.v4", "attention_rows.compression", "attention_rows.sparse", "moe", "residual",
    "attention_rows.linear_attention", "attention_rows.recurrent", "losses", "optim", "image",
    "quantized_rows.int8_convolution",
)  # fmt: skip


class Registry(Shown, Mapping[str, Operator]):
    """A mapping from names to rows.

    Examples
    --------
    >>> from pypto.library import rows
    >>> rows["rms_norm"].effects
    ()
    """

    def __init__(self, modules: tuple[str, ...] = MODULES) -> None:
        self._modules = modules
        self._rows: dict[str, Operator] = {}
        self._registered: dict[str, Operator] = {}
        self._watchers: list[Callable[[Operator], None]] = []

    def __repr__(self) -> str:
        return f"<{len(self)} operators: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        from pypto.library.card import registry_card

        return registry_card(self)

    def __getitem__(self, name: str) -> Operator:
        row = self._registered.get(name) or self._rows.get(name) or self.all().get(name)
        if row is None:
            raise NoSuchOperator(name=repr(name), suggestion=suggestion(name, self.all()))
        return row

    def __contains__(self, name: object) -> bool:
        return name in self._registered or name in self._rows or name in self.all()

    def __iter__(self) -> Iterator[str]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self.all())

    def all(self) -> dict[str, Operator]:
        """Returns all rows by name; a row of the user replaces one of the package."""
        if not self._rows:
            for module in self._modules:
                self._rows |= {row.name: row for row in import_module(f"pypto.library.{module}").ROWS}
        return self._rows | self._registered

    def families(self) -> dict[str, tuple[Operator, ...]]:
        """Returns the rows of the package by module."""
        return {name.rpartition(".")[2]: import_module(f"pypto.library.{name}").ROWS for name in self._modules}

    def register(self, row: Operator, *, replace: bool = False) -> Operator:
        """Adds a row, after reading its signature.

        Parameters
        ----------
        row : Operator
        replace : bool
            Whether it replaces a row of that name.

        Raises
        ------
        AlreadyRegistered
            If there is a row of that name, and `replace` is not set.
        """
        assert row.signature is not None
        if row.name in self and not replace:
            raise AlreadyRegistered(what=f"an operator {row.name!r}")
        self._registered[row.name] = row
        for watcher in self._watchers:
            watcher(row)
        return row

    def watch(self, watcher: Callable[[Operator], None]) -> None:
        """Calls a function with each row, and with rows that are registered later."""
        self._watchers.append(watcher)
        for row in self.values():
            watcher(row)
