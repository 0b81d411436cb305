"""A module of the user's as a traced function sees it."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from pypto.errors.graph import OutsideWritten
from pypto.graph.ir.location import here

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads


class ModuleView:
    """A module, of which all that is read is noted."""

    def __init__(self, reads: Reads, place: int, module: ModuleType) -> None:
        object.__setattr__(self, "_seen", (reads, place, module))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ModuleType

    def __getattr__(self, name: str) -> Any:
        reads, place, module = object.__getattribute__(self, "_seen")
        value = getattr(module, name)
        return value if name.startswith("__") else reads.child(place, "attr", name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        _, _, module = object.__getattribute__(self, "_seen")
        raise OutsideWritten(here().loc(), what=f"`{module.__name__}.{name}`")
