"""The execution plan of a graph: steps over one arena of memory; and the cache of the plans of a function.

A step launches a kernel, or copies an array into another. Arrays between steps are in the arena, each result has its
own memory, and movements are views. With named dimensions one plan serves all sizes: it computes shapes, grids and the
arena when it first meets new sizes, and compiles no kernel again.

The form of the arguments is the key of the cache, and guards select among its plans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np

from pypto.graph.ir.dims import Sizes, hint
from pypto.graph.ir.node import Graph, Guard, Node, base_of
from pypto.graph.plan.execution_context import Frame, compile_ahead
from pypto.graph.plan.schedule import (
    PlanKernel,
    Schedule,
    Step,
    Waves,
    ends_of,
    overlap_text,
    updated_in_place,
    updates_in,
)
from pypto.graph.tracing.launches import launch_of
from pypto.jit import Kernel
from pypto.markup import Shown
from pypto.markup.pictures import SavablePicture
from pypto.runtime.launches import HOST
from pypto.runtime.places import HostDevice
from pypto.runtime.specialization import Specialization

Array = np.ndarray[Any, Any]
NO_MEMORY: Final[Mapping[Node, Array]] = MappingProxyType({})
NO_SIZES: Final[Sizes] = MappingProxyType({})
Donated = Mapping[Node, int]  # the inputs, by number, whose memory becomes results
NO_DONATION: Final[Donated] = MappingProxyType({})
Versions = Mapping[Kernel, Specialization]
DRAWINGS: Final = ("tensor", "execution", "arena")
# The views of a plan, by the names of functions of a later stage, which are imported at first use.
VIEWS: Final = MappingProxyType(
    {
        "tensor": "pypto.graph.views.tensor_graph:plan_drawing",
        "execution": "pypto.graph.views.execution:execution_drawing",
        "arena": "pypto.graph.views.arena:arena_drawing",
        "page": "pypto.graph.views.page:page",
        "card": "pypto.graph.views.page:body",
    }
)
MOST_SIZES = 16  # sets of sizes that a plan keeps arenas for


@dataclass(eq=False)
class Plan(Shown, Schedule):
    """An executable schedule: steps in order, the placement of their arrays, and compiled kernels.

    Parameters
    ----------
    reasons : mapping from Node to tuple of str
        Why merges were refused that would have avoided storing these arrays.
    """

    reasons: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    frames: dict[tuple[Any, ...], list[Frame]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_compiled: bool = False
    keep: Callable[[Plan, Versions], None] | None = None  # called when its kernels have been compiled

    def __post_init__(self) -> None:
        super().__post_init__()
        arena = self.arena(self.hints)
        self.arena_bytes = arena.nbytes
        offsets = {slot.buffer.key: slot.offset for slot in arena.slots}
        self.offsets = {node: offsets[self.buffer_aliases.get(node, node)] for node in self.lifetimes}

    @property
    def kernels(self) -> tuple[PlanKernel, ...]:
        """Return the distinct kernels, in the order of their first step."""
        return tuple(dict.fromkeys(s.kernel for s in self.steps if s.kernel is not None))

    def run(
        self, arrays: Sequence[Array], sizes: Sizes = NO_SIZES, memory: Mapping[Node, Array] = NO_MEMORY,
        donated: Donated = NO_DONATION, place: HostDevice = HOST,
    ) -> list[Array]:  # fmt: skip
        """Run the plan on input arrays, and return the outputs, which `place` allocates.

        `memory` has C-order arrays for results, and `donated` the numbers of inputs whose memory becomes a result's.
        """
        if not self.is_compiled:
            self.compile(arrays)
        frames = self.frames_for((*sizes.values(), *([tuple(donated.values())] if donated else [])))
        try:
            frame = frames.pop()
        except IndexError:
            owners = {result: self.graph.inputs[number] for result, number in donated.items()}
            frame = Frame(self, len(arrays), dict(sizes), place, owners)
        results = frame.run(arrays, memory)
        frames.append(frame)
        return results

    def compile(self, arrays: Sequence[Array]) -> None:
        """Compile all kernels before the first run."""
        with self.lock:
            if self.is_compiled:
                return
            versions = compile_ahead(self, arrays)
            if versions is not None and self.keep is not None:
                self.keep(self, versions)
            self.is_compiled = True

    def frames_for(self, key: tuple[Any, ...]) -> list[Frame]:
        """Return the unused frames for some sizes; frames of the oldest sizes are dropped if there are too many."""
        frames = self.frames.get(key)
        if frames is None:
            with self.lock:
                while len(self.frames) >= MOST_SIZES:
                    del self.frames[next(iter(self.frames))]
                frames = self.frames.setdefault(key, [])
        return frames

    def drawing(self, name: str = "execution") -> SavablePicture:
        """Draw one level; a notebook shows the picture, and ``save("x.svg")`` or ``save("x.dot")`` writes it.

        Parameters
        ----------
        name : str
            ``tensor`` is the Tensor graph with the groups that became kernels, ``execution`` the steps with their
            dependencies, ``arena`` the memory over the steps.

        Raises
        ------
        ValueError
            When no picture has this name.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> plan = pto.fuse(lambda x: np.exp(x) + 1).plan(np.zeros(8, np.float32))
        >>> [box.title for box in plan.drawing("tensor").boxes]
        ['x', 'exp', 'add ·, 1', 'result']
        """
        if name not in DRAWINGS:
            raise ValueError(f"there is no picture {name!r} of a plan; there are {', '.join(DRAWINGS)}")
        return cast("SavablePicture", resolve_name(VIEWS[name])(self))

    def html(self) -> str:
        """Return all views as one self-contained HTML page."""
        return str(resolve_name(VIEWS["page"])(self))

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        (file := Path(path)).write_text(self.html(), encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        return str(resolve_name(VIEWS["card"])(self))

    def __str__(self) -> str:
        return explanation(self)


def planned(
    graph: Graph,
    waves: Waves,
    fixed: dict[Node, Array],
    reasons: dict[Node, tuple[str, ...]],
    updates: Mapping[Node, Node],
    in_place: bool = True,
) -> Plan:
    """Build the plan of some steps, with live ranges and buffer aliases."""
    steps, ends = waves.steps, ends_of(waves.sizes)
    stored = {n for s in steps for n in s.writes}
    read = (n for s in steps for n in s.reads)
    constants = tuple(dict.fromkeys(n for n in (*read, *graph.outputs) if n.is_number))
    results = {base_of(n, stored) for n in graph.outputs}
    spans = lifetimes(steps, results, ends)
    written = updates_in(graph, updates, steps) if in_place else {}
    aliases = updated_in_place(steps, ends, spans, stored, written) if in_place else {}
    outside = results.union(updates)
    in_arena = {node: span for node, span in spans.items() if aliases.get(node, node) not in outside}
    return Plan(graph, steps, in_arena, fixed, constants, aliases, waves.sizes, dict(updates), reasons)


def lifetimes(
    steps: Sequence[Step], results: set[Node], ends: Sequence[tuple[int, int]]
) -> dict[Node, tuple[int, int]]:
    """Compute the live ranges of arrays other than results, from the first step of a wave to the last."""
    first, last = dict[Node, int](), dict[Node, int]()
    for step, (start, end) in zip(steps, ends, strict=True):
        for node in step.writes:
            first[node] = start
            last[node] = end
        for node in step.reads:
            if node in first:
                last[node] = end
    return {n: (first[n], last[n]) for n in first if n not in results}


# --- explanation --------------------------------------------------------------------------------------------------


def explanation(plan: Plan) -> str:
    """Explain a plan: its steps, the placement of its arrays, and the refused merges."""
    total = sum(hint(n.type.nbytes) for n in plan.graph.live() if not (n.is_input or n.is_constant))
    by_numpy = sum(
        step.kernel is None and launch_of(step.nodes[-1]) is None and step.nodes[-1].is_call for step in plan.steps
    )
    counts = f"{len(plan.steps)} steps, {len(plan.kernels)} kernels" + (
        f", {by_numpy} run by numpy" if by_numpy else ""
    )
    lines = [f"plan of {plan.graph.name}: {counts}, arena {plan.arena_bytes:,} bytes of {total:,}"]
    lines += [f"  where {guard}, asked at {guard.place.loc()}" for guard in guards_of(plan)]
    for number, step in enumerate(plan.steps):
        lines += step_lines(plan, number, step)
    return "\n".join(lines) + "\n"


def guards_of(plan: Plan) -> tuple[Guard, ...]:
    """Return the guards on named dimensions, which hold for all sizes that the plan serves."""
    return tuple(plan.graph.guards.answered) if plan.graph.guards else ()


def between_kernels(node: Node) -> str:
    """Return what a step without a kernel of the plan does."""
    launch = launch_of(node)
    if launch is not None:
        return f"launch of {launch.kernel.__name__}"
    return f"{node.attr('function').__qualname__}, run by numpy" if node.is_call else f"{node.op}, moved by numpy"


def step_lines(plan: Plan, number: int, step: Step) -> list[str]:
    what = step.kernel.name if step.kernel else between_kernels(step.nodes[-1])
    lines = [f"{number:3} {what} {list(step.grid)}: {len(step.nodes)} ops, {places(step.nodes)}"]
    start, end = ends_of(plan.waves)[number]
    if end > start:
        lines.append(f"      {overlap_text(step, [n for n in range(start, end + 1) if n != number])}")
    recomputed = made_before(plan, number, step)
    if recomputed:
        lines.append(
            f"      computes again {', '.join(f'%{n.number}' for n in recomputed)}: to store them is more to move"
        )
    for node in step.writes:
        at = f"arena at {plan.offsets[node]}" if node in plan.offsets else place_text(plan, node)
        lines.append(f"      stores %{node.number} {node.type}, {at}{reason(plan, node)}")
    return lines


def place_text(plan: Plan, node: Node) -> str:
    """Return where an array lies that is not in the arena."""
    owner = plan.buffer_aliases.get(node, node)
    return f"in `{owner.attr('name')}`" if owner.is_input else "a result"


def made_before(plan: Plan, number: int, step: Step) -> list[Node]:
    """Return the nodes that a step recomputes, without the operands of other recomputed nodes."""
    before = {n for s in plan.steps[:number] for n in s.nodes}
    recomputed = [n for n in step.nodes if n in before]
    parts = {x for n in recomputed for x in n.inputs}
    return [n for n in recomputed if n not in parts]


def reason(plan: Plan, node: Node) -> str:
    """Return the reason why an array is stored, as the end of a line."""
    reason = plan.reasons.get(node)
    return f": {'; '.join(reason)}" if reason else ""


def places(nodes: tuple[Node, ...]) -> str:
    """Return the user's lines that some nodes come from."""
    numbers: dict[str, list[int]] = {}
    for node in nodes:
        if node.place is not None:
            numbers.setdefault(Path(node.loc.file).name, []).append(node.loc.line)
    return ", ".join(f"{file}:{span_text(min(lines), max(lines))}" for file, lines in numbers.items())


def span_text(first: int, last: int) -> str:
    """Format a range of lines.

    Examples
    --------
    >>> span_text(3, 7), span_text(3, 3)
    ('3-7', '3')
    """
    return str(first) if first == last else f"{first}-{last}"
