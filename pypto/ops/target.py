"""Target constants: facts of the machine that kernels read as `pto.target.NAME`, each known at compile time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from pypto.errors.frontend import NoTargetFact
from pypto.loc import Loc
from pypto.options import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConstants:
    """The facts of one machine, as `pto.target` says what they are; None is a fact that its backend does not give.

    Examples
    --------
    >>> TargetConstants(name="board", cores=4).read("cores")
    4
    """

    name: str = "unknown"
    cores: int | None = None
    cube_cores: int | None = None
    l2_bytes: int | None = None
    vector_bytes: int | None = None
    has_exp2: bool = True  # of lane rules, too

    def read(self, name: str, loc: Loc | None = None) -> Any:
        """A fact by its name.

        Raises
        ------
        NoTargetFact
            When the machine's backend does not give it.
        """
        value = getattr(self, name)
        if value is None:
            known = ", ".join(f for f in FACTS if getattr(self, f) is not None)
            raise NoTargetFact(loc, target=self.name, name=name, known=known)
        return value


FACTS: Final = tuple(f.name for f in fields(TargetConstants))


def similar_fact(name: str) -> str:
    """A hint at the fact that may be meant, or at all of them."""
    return suggestion(name, FACTS, "did you mean `pto.target.{}`?") or f"its facts are {', '.join(FACTS)}"


class TargetName:
    """What `pto.target` is: the front end replaces its attributes by the facts of the machine that it builds for."""

    def __repr__(self) -> str:
        return "pto.target"
