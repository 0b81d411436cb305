"""The tuning search: every candidate runs once, wrong ones are dropped, and the fast ones race for the best time.

The search covers only a part of a large space: first a sample that is spread over it, then the neighbours of the
fastest candidates, as long as one of them is faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pypto.errors import CompilerBug, PyptoError
from pypto.tuning.agreement import Array, Group, Groups, Output, Witnesses, changed, count_members, listed
from pypto.tuning.config import Config
from pypto.tuning.interrupts import Interrupts
from pypto.tuning.order import Neighbours, Point

_REPEAT_MS: Final = 10.0  # of the race's last round
_MOST_RUNS: Final = 20
_LEAST_RUNS: Final = 5  # of the race's last round, however long they take
_QUICK_MS: Final = 1.0  # runs of a candidate until so much time is spent, so that one disturbance decides nothing
_QUICK_RUNS: Final = 4
_FINALISTS: Final = 2
_SAMPLE: Final = 16  # candidates of a large space that are tried first, and more by each constant
_BEST: Final = 3  # candidates whose neighbours are all tried in the end
_FILLS: Final = (0x7F, 0xFF)  # bytes of outputs before the first two runs; the second makes floats NaN

Clock = Callable[[], int]
Measure = Callable[[Callable[[], None]], Any]


class Trial(Protocol):
    """A compiled configuration, ready to run on private memory.

    `prepare` restores the memory, and fills arrays that the kernel does not read with the byte `fill` if given.
    `arrays` are the stored arrays: the name, the array, and whether it was filled. Trials with equal `code` run equal
    code in the same way; None equals nothing. `probe` runs the first program alone, and tells whether that is possible.
    """

    @property
    def code(self) -> Any: ...

    def prepare(self, fill: int | None = None) -> None: ...
    def call(self) -> None: ...
    def probe(self) -> bool: ...
    def arrays(self) -> list[tuple[str, Array, bool]]: ...


@dataclass(slots=True)
class Outcome:
    """The outcome of a candidate. `status` is ``ok``, ``failed``, ``wrong``, ``equal`` or ``untried``.

    Candidates with an equal `launch` key are duplicates. `twin` is the candidate that was tried instead of a duplicate.
    """

    config: Config
    status: str = "untried"
    reason: str = ""
    times: list[float] = field(default_factory=list)
    error: BaseException | None = None
    launch: Any = None
    twin: Outcome | None = None

    @property
    def best(self) -> float:
        return min(self.times, default=math.inf)

    @property
    def low(self) -> float:
        """The 20 % quantile in milliseconds, which ranks candidates, because disturbances only make runs slower."""
        return self.quantiles[1]

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """The median, 20 % and 80 % quantile in milliseconds."""
        if self.status == "equal" and self.twin is not None:
            return self.twin.quantiles
        if self.status != "ok" or not self.times:
            return (math.inf,) * 3
        ordered = sorted(self.times)
        last = len(ordered) - 1
        return ordered[last // 2], ordered[last // 5], ordered[last * 4 // 5]


@dataclass
class Search:
    """A search in progress.

    Parameters
    ----------
    outcomes : list of Outcome
        The candidates, in the order in which they are tried.
    trial : function
        Compiles a configuration and gives its `Trial`.
    budget : float
        Seconds.
    trying : float
        The part of the budget in which candidates run for the first time; the rest is for the race.
    tell : function
        Called with every outcome that changed.
    clock : function
        Gives nanoseconds; all times and the budget are by it.
    label : function
        The name of a configuration in a sentence.
    witnesses : Witnesses, optional
        Counts the votes where results differ.
    points : sequence of tuple of int
        Where each candidate lies in the space, if neighbours of the fastest are to be tried in place of all.
    measure : function, optional
        Takes a function that makes one run, and gives milliseconds, in place of the runs and the race here.
    interrupts : Interrupts
        Asked between runs.
    lenient : bool
        Whether a configuration is chosen although results differ and none has a majority, as Triton does. Then
        `undecided` is true.
    """

    outcomes: list[Outcome]
    trial: Callable[[Config], Trial]
    budget: float
    tell: Callable[[Outcome], None]
    clock: Clock = time.perf_counter_ns
    label: Callable[[Config], str] = str
    witnesses: Witnesses | None = None
    points: Sequence[Point] = ()
    measure: Measure | None = None
    interrupts: Interrupts = field(default_factory=Interrupts)
    lenient: bool = False
    undecided: bool = False
    groups: Groups = field(default_factory=Groups)
    trials: dict[int, Trial] = field(default_factory=dict)
    known: dict[Any, Outcome] = field(default_factory=dict)
    interrupted: bool = False
    trying: float = 1.0
    most: int = 0  # candidates of a ranking that are to run; all without one
    alike: bool = False  # whether the first program does the same in all of them
    start: int = 0

    def run(self) -> Outcome | None:
        """Run the search; return the fastest correct candidate, or None if none ran or no majority is correct.

        Raises
        ------
        KeyboardInterrupt
            When an interrupt arrives before any result.
        """
        self.start = self.clock()
        try:
            for outcome in self.candidates():
                if self.late(self.trying) and self.right():
                    outcome.reason = "the time was over"
                    continue
                self.first_run(outcome)
                self.interrupts.check()
            self.drop_wrong()
            self.alike = self.are_alike()
            self.race()
        except KeyboardInterrupt:
            self.interrupts.take()
            self.interrupted = True
            self.drop_wrong()
            if not self.right():
                raise
        return min(self.right(), key=lambda o: (o.low, o.best), default=None)

    def right(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.status == "ok"]

    def late(self, part: float = 1.0) -> bool:
        return self.clock() - self.start > part * self.budget * 1e9

    # --- which candidates are tried ---

    def rank(self, order: list[Outcome] | None, most: int) -> None:
        """Have the first candidates of an order tried alone: as many that run as `most` says."""
        if order is not None and len(order) > most:
            others = {id(outcome) for outcome in order}
            self.outcomes = [*order, *(outcome for outcome in self.outcomes if id(outcome) not in others)]
            self.most = most

    def candidates(self) -> Iterator[Outcome]:
        """Yield all candidates, the first ones of a ranking, or in a large space those that a local search reaches."""
        if self.most:
            for outcome in self.outcomes:
                if len(self.right()) < self.most:
                    yield outcome
                else:
                    outcome.reason = "its estimated time is longer"
            return
        if not self.points:
            yield from self.outcomes
            return
        sample = _SAMPLE + 4 * len(self.points[0])
        yield from self.outcomes[:sample]
        neighbours, seen = Neighbours.of(self.points), set(range(min(sample, len(self.outcomes))))
        while following := self.following(neighbours, seen):
            seen.update(following)
            yield from (self.outcomes[n] for n in following)
        for outcome in self.outcomes:
            if outcome.status == "untried" and not outcome.reason:
                outcome.reason = "no neighbour of the fastest is faster"

    def following(self, neighbours: Neighbours, seen: set[int]) -> list[int]:
        """Return the untried neighbours of the fastest candidate, among the few fastest, that has some."""
        order = sorted((n for n in seen if self.outcomes[n].status == "ok"), key=lambda n: self.outcomes[n].low)
        for step in (neighbours.adjacent, neighbours.across):
            for n in order[:_BEST]:
                following = [m for m in step(self.points[n]) if m not in seen]
                if following:
                    return following
        return []

    # --- one candidate ---

    def first_run(self, outcome: Outcome) -> None:
        """Compile a candidate, run it at least twice, and add its results to the vote."""
        try:
            if not self.has_twin(outcome, outcome.launch):
                trial = self.trial(outcome.config)
                if not self.has_twin(outcome, trial.code):
                    self.observe(outcome, trial)
        except CompilerBug:
            raise
        except (PyptoError, MemoryError) as error:
            outcome.status, outcome.reason, outcome.error = "failed", first_line(error), error
        self.tell(outcome)

    def has_twin(self, outcome: Outcome, what: Any) -> bool:
        """Whether an earlier candidate has an equal launch or equal code, and so stands for both."""
        if what is None:
            return False
        twin = self.known.setdefault(what, outcome)
        if twin is not outcome:
            outcome.status, outcome.twin = "equal", twin
            outcome.reason = f"the same code as {self.label(twin.config)}"
        return twin is not outcome

    def observe(self, outcome: Outcome, trial: Trial) -> None:
        """Run a candidate, and observe which elements it stores and how long it takes."""
        if self.measure is not None:
            outputs, outcome.times = self.measured_by_user(trial, self.measure)
        else:
            first, _ = self.watched(trial, _FILLS[0])
            outputs, milliseconds = self.watched(trial, _FILLS[1])
            outputs = [Output(a.name, a.values, a.stored | b.stored, a.exact)
                       for a, b in zip(outputs, first, strict=True)]  # fmt: skip
            outcome.times.append(milliseconds)
        outcome.status = "ok"
        self.trials[id(outcome)] = trial
        if outputs or not trial.arrays():
            self.groups.join(outputs, outcome)
        while self.measure is None and sum(outcome.times) < _QUICK_MS and len(outcome.times) < _QUICK_RUNS:
            outcome.times.append(self.timed(trial))

    def watched(self, trial: Trial, fill: int) -> tuple[list[Output], float]:
        """Make one run, and return the stored arrays and the milliseconds."""
        trial.prepare(fill)
        before = [values.copy() for _, values, _ in trial.arrays()]
        milliseconds = self.timed_call(trial)
        return stored(trial, before), milliseconds

    @staticmethod
    def measured_by_user(trial: Trial, measure: Measure) -> tuple[list[Output], list[float]]:
        """Measure by the user's function, and return the arrays that its last run stored."""
        before: list[Array] = []

        def run() -> None:
            trial.prepare(_FILLS[1])
            before[:] = [values.copy() for _, values, _ in trial.arrays()]
            trial.call()

        times = measure(run)
        milliseconds = [float(t) for t in (times if isinstance(times, list | tuple) else [times])][:1]
        return stored(trial, before) if before else [], milliseconds

    def timed(self, trial: Trial) -> float:
        """Time a run in milliseconds."""
        trial.prepare()
        return self.timed_call(trial)

    def timed_call(self, trial: Trial) -> float:
        start = self.clock()
        trial.call()
        return (self.clock() - start) / 1e6

    # --- what the candidates say of each other ---

    def drop_wrong(self) -> None:
        """Drop wrong results: if results differ, only a majority that stores all elements is correct.

        A `lenient` search without such a majority keeps the likeliest group.
        """
        if len(self.groups.groups) < 2:
            return
        votes = self.witnesses.votes(self.groups) if self.witnesses else count_members
        right = self.groups.right(votes)
        if right is None and self.lenient:
            self.undecided, right = True, self.groups.likeliest(votes)
        for group in self.groups.groups:
            for outcome in group.members if group is not right else ():
                outcome.status, outcome.reason = "wrong", self.why_wrong(group, right)
                self.tell(outcome)

    def why_wrong(self, group: Group, right: Group | None) -> str:
        if right is None:
            return f"no majority computes the same: this one stores {group.coverage()}"
        count, names = len(right.members), listed(self.label(o.config) for o in right.members)
        agree = f"{count} other configurations ({names}), which agree"
        others = f"another configuration ({names})" if count == 1 else agree
        return f"it computes something else than {others}: {group.difference(right)}"

    def are_alike(self) -> bool:
        """Whether a program stores equal elements in all correct candidates, so that the grid's size does not matter.

        This is tested only if the grid depends on no tuned constant.
        """
        if self.witnesses is None or self.witnesses.bound:
            return False
        groups = Groups()
        for outcome in self.right():
            trial = self.trials[id(outcome)]
            trial.prepare(_FILLS[1])
            before = [values.copy() for _, values, _ in trial.arrays()]
            if not trial.probe():
                return False
            groups.join(stored(trial, before), outcome)
        return len(groups.groups) == 1

    def race(self) -> None:
        """Race the candidates by successive halving: each round has more runs, and drops the slower half."""
        racing = sorted(self.right(), key=lambda o: o.best)
        runs = 2
        while len(racing) > 1 and not self.late() and self.measure is None:
            is_last = len(racing) <= _FINALISTS
            for n in range(_MOST_RUNS if is_last else runs):
                for outcome in racing:
                    outcome.times.append(self.timed(self.trials[id(outcome)]))
                self.interrupts.check()
                if self.late() or (is_last and n + 1 >= _LEAST_RUNS and sum(racing[0].times) > _REPEAT_MS):
                    break
            for outcome in racing:
                self.tell(outcome)
            if is_last:
                return
            racing, runs = sorted(racing, key=lambda o: o.best)[: max(_FINALISTS, len(racing) // 2)], 2 * runs


def stored(trial: Trial, before: Sequence[Array]) -> list[Output]:
    """Return the contents of a trial's arrays after a run."""
    rows = zip(trial.arrays(), before, strict=True)
    return [Output(name, values, changed(old, values, exact), exact) for (name, values, exact), old in rows]


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
