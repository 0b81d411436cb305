"""The printer and parser of plans: the text has the graph, the source of the kernels and the steps, and round-trips.

The form, after the text of the graph::

    kernel rows_1a2b3c4d rows [a0]
        import pypto as pto
        …
    step rows_1a2b3c4d [n] nodes 1-4 reads 0 writes 4
      a0 0 [n, 8]
      out0 4 [n, 8] out
      read a0 0 1
      write out0 0 1
    assemble nodes 5 reads 4 writes 5
    overlap 2
    step …
    stored 4 "a slice of it is read"
    update 0 value 6
    in_place 4 owner 6

Nodes are named by their numbers in the graph's text. A kernel's name is followed by its form, the arguments that it
is not specialised for, and the blocking that tuning chose. A step's name is followed by its grid. A place of the
kernel that reads or writes an argument names the axes that index it, or `-` for another index. `overlap` names the
number of steps that overlap, `update` an argument that the function updates, with its new value, and `in_place` an
array that lies in the buffer of another one. Reading a text executes nothing of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn

from pypto.blocking import Blocking
from pypto.errors.ir import IRTextError
from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.codegen.writer import Access, Argument
from pypto.graph.ir.node import Graph, Node, base_of, sorted_inputs_first
from pypto.graph.ir.node import text as graph_text
from pypto.graph.ir.parser import parse_graph, parse_size
from pypto.graph.plan.plan import Plan, planned
from pypto.graph.plan.schedule import MOST_MEMBERS, PlanKernel, Step, Waves, check_wave
from pypto.graph.tracing.launches import launch_of
from pypto.jit.generated import kernel_of

_INDENT: Final = "    "
_STEP: Final = re.compile(r"(?:step (\w+) \[([^\]]*)\]|assemble) nodes (\S*) reads (\S*) writes (\S*)")
_ARGUMENT: Final = re.compile(r"  (\w+) (\d+) \[([^\]]*)\]( out)?")
_KERNEL: Final = re.compile(r"kernel (\w+) (\w+) \[([^\]]*)\]((?: \w+=\d+)*)")
_ACCESS: Final = re.compile(r"  (read|write) (\w+)((?: (?:\d+|-))*)")
_MODES: Final = ("  read ", "  write ")
_WAVE: Final = re.compile(r"overlap (\d+)")
_IN_PLACE: Final = re.compile(r"in_place (\d+) owner (\d+)")
_UPDATE: Final = re.compile(r"update (\d+) value (\d+)")
_WHY: Final = re.compile(r'stored (\d+) (".*")')


def plan_text(plan: Plan) -> str:
    """Print a plan.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> plan = pto.fuse(lambda x: np.exp(x) + 1).plan(np.zeros((2, 3), np.float32))
    >>> again = parse_plan(plan_text(plan))
    >>> plan_text(again) == plan_text(plan)
    True
    """
    return graph_text(plan.graph, locations=True) + steps_text(plan)


def parse_plan(text: str) -> Plan:
    """Parse a plan. Constant arrays from outside of the function become further inputs.

    Raises
    ------
    IRTextError
        With the line, when the text is no plan.
    """
    head, close, tail = text.partition("\n}\n")
    graph = parse_graph(head + close)
    return read_steps(tail, graph)


# --- writing -------------------------------------------------------------------------------------------------------


def steps_text(plan: Plan) -> str:
    """Print a plan without its graph."""
    numbers = {node: n for n, node in enumerate(sorted_inputs_first(plan.graph, plan.graph.live()))}
    lines: list[str] = []
    for kernel in plan.kernels:
        fields = "".join(f" {name}={value}" for name, value in kernel.blocking.overrides)
        lines.append(f"kernel {kernel.name} {kernel.form} [{', '.join(kernel.sized)}]{fields}")
        lines += [(_INDENT + line).rstrip() for line in kernel.source.splitlines()]
    for step, wave in zip(plan.steps, plan.waves, strict=True):
        if wave > 1:
            lines.append(f"overlap {wave}")
        what = f"step {step.kernel.name} [{listed(step.grid)}]" if step.kernel else "assemble"
        parts = (f"{word} {spans(numbers[n] for n in nodes)}" for word, nodes in parts_of(step))
        lines.append(" ".join((what, *parts)))
        for a in step.arguments:
            lines.append(f"  {a.name} {numbers[a.node]} [{listed(a.shape)}]{' out' if a.is_output else ''}")
        lines += [" ".join(("  " + x.mode, x.array, *map(axis_text, x.axes))) for x in step.accesses]
    for node, reasons in plan.reasons.items():
        lines += [f"stored {numbers[node]} {json.dumps(reason)}" for reason in reasons]
    lines += [f"update {numbers[node]} value {numbers[new]}" for node, new in plan.updates.items()]
    lines += [f"in_place {numbers[node]} owner {numbers[owner]}" for node, owner in plan.buffer_aliases.items()]
    return "".join(f"{line}\n" for line in lines)


def parts_of(step: Step) -> tuple[tuple[str, tuple[Node, ...]], ...]:
    return ("nodes", step.nodes), ("reads", step.reads), ("writes", step.writes)


def axis_text(axis: int | None) -> str:
    return "-" if axis is None else str(axis)


def listed(sizes: Iterable[Any]) -> str:
    return ", ".join(map(str, sizes))


def spans(numbers: Iterable[int]) -> str:
    """Format sorted numbers with runs as spans; a dash means no numbers."""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and spans[-1][1] == n - 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans) or "-"


# --- reading -------------------------------------------------------------------------------------------------------


def read_steps(text: str, graph: Graph) -> Plan:
    """Parse the plan of a graph from the text of its steps.

    Raises
    ------
    IRTextError
        With the line, when the text is malformed, or names a node that the graph does not have.
    """
    return _Reader(text, graph).plan()


class _Reader:
    def __init__(self, text: str, graph: Graph) -> None:
        self.graph = graph
        self.lines = text.splitlines()
        self.number = 0
        self.nodes = sorted_inputs_first(graph, graph.live())
        self.kernels: dict[str, PlanKernel] = {}
        self.steps: list[Step] = []
        self.waves: list[int] = []
        self.reasons: dict[Node, tuple[str, ...]] = {}
        self.aliases: dict[Node, Node] = {}
        self.updates: dict[Node, Node] = {}
        self.stored = {*graph.inputs, *(n for n in self.nodes if n.is_number)}

    def plan(self) -> Plan:
        readers: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], None]], ...] = (
            (_KERNEL, self.kernel), (_STEP, self.step), (_WHY, self.why), (_WAVE, self.wave),
            (_IN_PLACE, self.in_place), (_UPDATE, self.update),
        )  # fmt: skip
        while self.number < len(self.lines):
            line = self.lines[self.number]
            self.number += 1
            rows = ((read, match) for pattern, read in readers if (match := pattern.fullmatch(line)))
            read, match = next(rows, (None, None))
            if read is None or match is None:
                self.fail(f"{line!r} is no part of a plan")
            read(match)
        sizes = self.waves + [1] * (len(self.steps) - len(self.waves))
        self.check_waves(sizes)
        waves = Waves(tuple(self.steps), tuple(sizes))
        plan = planned(self.graph, waves, {}, self.reasons, self.updates, bool(self.aliases))
        if plan.buffer_aliases != self.aliases:
            self.fail("an array cannot lie in the buffer of the one that is named")
        return plan

    def in_place(self, match: re.Match[str]) -> None:
        """Parse a buffer alias: an array in the buffer of another one."""
        (node,), (owner,) = map(self.nodes_of, match.groups())
        self.aliases[node] = owner

    def update(self, match: re.Match[str]) -> None:
        """Parse an argument that the function updates, and its new value."""
        (node,), (new,) = map(self.nodes_of, match.groups())
        if not node.is_input or new not in self.graph.outputs:
            self.fail("an update gives an argument a new value, which is a result")
        self.updates[node] = new

    def wave(self, match: re.Match[str]) -> None:
        """Parse a wave: the number of steps from the next one on that overlap."""
        start, size = len(self.steps), int(match[1])
        if len(self.waves) > start or not 2 <= size <= MOST_MEMBERS:
            self.fail("some steps overlap, or are too many or too few")
        self.waves += [1] * (start - len(self.waves)) + [size] + [0] * (size - 1)

    def check_waves(self, sizes: list[int]) -> None:
        if len(sizes) > len(self.steps):
            self.fail("there are fewer steps than overlap")
        for start, size in enumerate(sizes):
            problem = check_wave(self.steps[start : start + size]) if size > 1 else ""
            if problem:
                self.fail(problem)

    def fail(self, problem: str) -> NoReturn:
        raise IRTextError(line=self.number, problem=problem)

    def following(self, prefix: str) -> Iterator[str]:
        """Return the indented lines that follow."""
        while self.number < len(self.lines) and (
            self.lines[self.number].startswith(prefix) or not self.lines[self.number]
        ):
            self.number += 1
            yield self.lines[self.number - 1]

    def kernel(self, match: re.Match[str]) -> None:
        name, form, sized, fields = match.groups()
        source = "".join(line[len(_INDENT) :] + "\n" for line in self.following(_INDENT))
        names = tuple(filter(None, sized.split(", ")))
        try:
            blocking = Blocking(**{key: int(value) for key, value in (x.split("=") for x in fields.split())})
            kernel = kernel_of(source, name, names, blocking)
        except (SyntaxError, ValueError, TypeError, StopIteration, LookupError):
            self.fail(f"there is no kernel `{name}` in its text")
        self.kernels[name] = PlanKernel(name, source, form, kernel, names, blocking)

    def step(self, match: re.Match[str]) -> None:
        name, grid, *parts = match.groups()
        nodes, reads, writes = (tuple(self.nodes_of(part)) for part in parts)
        if name is not None and name not in self.kernels:
            self.fail(f"there is no kernel `{name}` before this step")
        if not nodes or not writes or not set(reads) <= self.stored:
            self.fail("a step reads what no step before it stores, or stores nothing")
        lines = list(self.following("  "))
        arguments = tuple(self.argument(line) for line in lines if not line.startswith(_MODES))
        accesses = tuple(self.access(line, arguments) for line in lines if line.startswith(_MODES))
        if name is not None and [a.name for a in arguments] != self.kernels[name].kernel.arg_names:
            self.fail(f"`{name}` has other arguments")
        is_update = name is None or self.kernels[name].form == SCATTER
        operands = nodes[-1].inputs if is_update else [a.node for a in arguments if not a.is_output]
        results = [a.node for a in arguments if a.is_output]
        if name is None:
            results = [nodes[-1]] if launch_of(nodes[-1]) is None else list(nodes)
        if {base_of(x, self.stored) for x in operands} != set(reads) or results != list(writes):
            self.fail("what a step reads and stores are not its operands and results")
        self.stored |= set(writes)
        kernel = None if name is None else self.kernels[name]
        self.steps.append(Step(nodes, reads, writes, kernel, arguments, self.sizes(grid or "1"), accesses))

    def argument(self, line: str) -> Argument:
        match = _ARGUMENT.fullmatch(line)
        if match is None:
            self.fail(f"{line!r} is no argument")
        name, number, shape, output = match.groups()
        (node,) = self.nodes_of(number)
        return Argument(name, node, self.sizes(shape), output is not None)

    def access(self, line: str, arguments: tuple[Argument, ...]) -> Access:
        match = _ACCESS.fullmatch(line)
        if match is None or match[2] not in {a.name for a in arguments}:
            self.fail(f"{line!r} reads or writes no argument")
        axes = tuple(None if axis == "-" else int(axis) for axis in match[3].split())
        return Access(match[2], axes, "read" if match[1] == "read" else "write")

    def sizes(self, text: str) -> tuple[int, ...]:
        if "(" not in text:
            return tuple(map(self.size, text.split(", ")))
        return tuple(parse_size(text, self.graph.dims))

    def size(self, text: str) -> int:
        return int(text) if text.isdecimal() else parse_size(text, self.graph.dims)[0]

    def nodes_of(self, text: str) -> list[Node]:
        nodes: list[Node] = []
        for span in text.split(",") if text != "-" else ():
            first, _, last = span.partition("-")
            if not (first.isdecimal() and (last or first).isdecimal() and int(last or first) < len(self.nodes)):
                self.fail(f"{span!r} are no nodes of the graph")
            nodes += self.nodes[int(first) : int(last or first) + 1]
        return nodes

    def why(self, match: re.Match[str]) -> None:
        (node,) = self.nodes_of(match[1])
        try:
            reason = str(json.loads(match[2]))
        except ValueError:
            self.fail("a reason is a text")
        self.reasons[node] = (*self.reasons.get(node, ()), reason)
