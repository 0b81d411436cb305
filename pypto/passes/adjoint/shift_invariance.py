"""Shift invariance: maxima that only keep exponentials in range have no gradient.

Softmax subtracts the maximum of a row before it takes exponentials. No result depends on what is subtracted, so that
the gradient by it is 0, and need not be computed: neither the sum that would give 0 but for rounding, nor where the
maximum is. The analysis shifts a maximum by δ and follows the shift through the function, see `shift_rules`; where
nothing that is stored answers, the maximum is a constant to the reverse sweep. In a loop, each trip's maximum is
shifted alone: what the loop carries answers in that trip and in those after it.

Legal since the results are the same function of the elements whatever the maximum is: by the chain rule, what reaches
the gradient through it is 0.

    m' = maximum(m, max(s))     m'      is shifted by δ
    p  = exp(s - m')            p       is scaled by exp(-δ)
    l' = l · exp(m - m') + …    l'      is scaled by exp(-δ); in the next trip not at all
    a' = a · exp(m - m') + p·v  a' / l' does not answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Function, Op, Region, Value, walk
from pypto.passes.adjoint.activity import is_real
from pypto.passes.adjoint.shift_rules import NO_RESPONSE, NoRule, Response, response_of
from pypto.passes.analysis.carried import carried, initial
from pypto.passes.analysis.memory_effects import is_load, is_pure

_CANDIDATES: Final = frozenset({"max", "min", "maximum", "minimum"})
_MAX_STATES: Final = 8

State = tuple[Response, ...]
Responses = dict[Value, Response]


def shift_invariant_values(function: Function) -> frozenset[Value]:
    """The maxima and minima of a function of whose value no result depends."""
    candidates = [op.result for op in function.walk() if op.name in _CANDIDATES and is_real(op.result)]
    return frozenset(v for v in candidates if Shift(v).leaves_results(function))


@dataclass(frozen=True)
class Shift:
    """Follows a shift of one value through a function."""

    shifted: Value

    def leaves_results(self, function: Function) -> bool:
        """Whether nothing that a function stores, and no condition or address, answers."""
        try:
            self.region(function.body, {}, True)
        except NoRule:
            return False
        return True

    def region(self, region: Region, before: Responses, is_shifted: bool) -> list[Responses]:
        """The responses after a region, from those before it: several, where it depends on trips and branches."""
        ways = [dict(before)]
        for op in region.ops:
            ways = [way for known in ways for way in self.op(op, known, is_shifted)]
            if len(ways) > _MAX_STATES:
                raise NoRule(op.name)
        return ways

    def op(self, op: Op, known: Responses, is_shifted: bool) -> list[Responses]:
        if op.name == "for":
            return [self.with_results(op, known, state) for state in self.loop(op, known, is_shifted)]
        if op.name == "if":
            self.refuse_response(op.operands, known)
            states = [s for region in op.regions for s in self.yielded(region, known, is_shifted)]
            return [self.with_results(op, known, state) for state in dict.fromkeys(states)]
        responses = [known.get(v, NO_RESPONSE) for v in op.operands]
        if op.name == "yield":
            return [known]
        if not is_pure(op) or is_load(op) or op.regions:
            self.refuse_response(op.operands, known)
            if any(x.result is self.shifted for region in op.regions for x in walk(region) if len(x.results) == 1):
                raise NoRule(op.name)
            return [known]
        if self.shifted in op.results:
            known[self.shifted] = self.parameter() if is_shifted else NO_RESPONSE
        elif any(not r.is_none for r in responses):
            if len(op.results) != 1:
                raise NoRule(op.name)
            known[op.result] = response_of(op, responses)
        return [known]

    def parameter(self) -> Response:
        """The response of the shifted value itself."""
        return Response(1.0, 0.0, tuple(d for d, n in enumerate(self.shifted.shape) if n != 1))

    def loop(self, op: Op, known: Responses, is_shifted: bool) -> list[State]:
        """What a loop may carry out of its last trip."""
        self.refuse_response(op.operands[:3], known)
        start: State = tuple(known.get(v, NO_RESPONSE) for v in initial(op))
        pending = [(start, False)]
        if is_shifted and self.is_inside(op):
            if any(not r.is_none for r in start):
                raise NoRule(op.name)
            pending.append((start, True))
        reached: dict[tuple[State, bool], None] = {}
        states = {start: None}
        while pending:
            entry = pending.pop()
            if entry in reached:
                continue
            reached[entry] = None
            inner = known | dict(zip(carried(op, op.regions[0]), entry[0], strict=True))
            for after in self.yielded(op.regions[0], inner, entry[1]):
                states[after] = None
                pending.append((after, False))
            if len(reached) > _MAX_STATES:
                raise NoRule(op.name)
        return list(states)

    def yielded(self, region: Region, known: Responses, is_shifted: bool) -> list[State]:
        """The states in which a region may end."""
        ends = self.region(region, known, is_shifted)
        return [tuple(end.get(v, NO_RESPONSE) for v in region.terminator.operands) for end in ends]

    def with_results(self, op: Op, known: Responses, state: State) -> Responses:
        return known | dict(zip(op.results, state, strict=True))

    def is_inside(self, op: Op) -> bool:
        return any(self.shifted in x.results for region in op.regions for x in walk(region))

    def refuse_response(self, values: Sequence[Value], known: Responses) -> None:
        """A condition, an address or what is stored must not answer."""
        if any(not known.get(v, NO_RESPONSE).is_none for v in values):
            raise NoRule("effect")
