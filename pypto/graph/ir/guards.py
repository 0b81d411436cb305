"""Guards of a plan: the answers to comparisons that a function makes on named sizes while it is traced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pypto.graph.ir.dims import Sizes, decided, hint, relation, unasked, value_of
from pypto.graph.ir.location import here
from pypto.loc import Caller


@dataclass(frozen=True, slots=True)
class Asked:
    """A guard: a comparison of sizes, and the answer for which the plan is valid."""

    difference: Any  # of the two sides, a Size
    relation: str
    answer: bool
    place: Caller

    def holds(self, sizes: Sizes) -> bool:
        return relation(value_of(self.difference, sizes), self.relation) is self.answer

    def __str__(self) -> str:
        word = self.relation if self.answer else {"==": "!=", "<": ">=", "<=": ">"}[self.relation]
        return f"{self.difference} {word} 0"


@dataclass(slots=True)
class Guards:
    """The guards that a traced function's comparisons of sizes made."""

    answered: list[Asked] = field(default_factory=list)

    def answer(self, difference: Any, word: str) -> bool:
        """Answer a comparison, and record it as a guard if the ranges of the dims do not decide it."""
        known = decided(difference, word)
        if known is not None:
            return known
        answer, plain = relation(hint(difference), word), unasked(difference)
        if not any(a.difference == plain and a.relation == word for a in self.answered):
            self.answered.append(Asked(plain, word, answer, here()))
        return answer

    def hold(self, sizes: Sizes) -> bool:
        return all(a.holds(sizes) for a in self.answered)
