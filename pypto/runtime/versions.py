"""The compiled versions of a kernel as a list that shows itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pypto.markup import Shown, card, join, table, tag
from pypto.runtime.specialization import shown

if TYPE_CHECKING:
    from pypto.markup import Markup
    from pypto.runtime.specialization import Specialization


class Versions(list["Specialization"], Shown):
    """What `Kernel.specializations` gives: a list, and in a notebook a table."""

    def __init__(self, kernel: str, versions: Iterable[Specialization]) -> None:
        super().__init__(versions)
        self.kernel = kernel

    def __str__(self) -> str:
        head = f"{self.kernel}: {counted(len(self))}"
        return "\n".join([head, *(f"  {n}: {version!r}" for n, version in enumerate(self, 1))])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # IPython has a way of its own with lists

    def _repr_html_(self) -> str:
        return card(f"{self.kernel}: {counted(len(self))}", versions_table(self))


def counted(count: int) -> str:
    return f"{count} compiled version{'' if count == 1 else 's'}"


def version_card(version: Specialization) -> Markup:
    """One version, as `Kernel.compile` gives it."""
    return card("a compiled version", versions_table([version]))


def versions_table(versions: Iterable[Specialization]) -> Markup:
    """A row for each version: its types, what else it was compiled for, why it was needed, how long it took."""
    heads = ("", "arguments", "compiled for", "backend", "why", "compiled in")
    return table(heads, [(n, *version_cells(version)) for n, version in enumerate(versions, 1)], (0, 5))


def version_cells(version: Specialization) -> tuple[Any, ...]:
    types = ", ".join(f"{name}: {kind}" for name, kind in version.types)
    facts = ", ".join(shown(*row) for row in sorted(version.guard.items())) or "no facts"
    seconds = sum(version.timings.values())
    backend = version.program.backend.name if version.program is not None else ""
    overlap = "" if version.noalias else "; arrays overlap"
    return tag("code", types), join([tag("code", facts), overlap]), backend, version.reason, f"{1e3 * seconds:.0f} ms"
