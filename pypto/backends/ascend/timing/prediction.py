"""Prediction of a launch: its cycles, the unit that limits it, the bytes moved, and a timeline."""

from __future__ import annotations

import json
import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pypto.backends.ascend.blockir.instructions import PIPES
from pypto.backends.ascend.blockir.ir import BlockKernel, Item
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.timing.accesses import Access, ReadNumber, Tracer
from pypto.backends.ascend.timing.core import CoreTime, Flags, Slice
from pypto.backends.ascend.timing.costs import operations_per_cycle
from pypto.backends.ascend.timing.l2 import NOTHING, L2Use, l2_use
from pypto.backends.ascend.timing.rates import RATES_OF, MemoryRates
from pypto.backends.ascend.timing.steady_state import skip_together
from pypto.ir.types import DType
from pypto.markup import Shown

GRID_NAMES: Final = ("grid_x", "grid_y", "grid_z")
LAUNCH: Final = 5400.0  # cycles until the cores begin: 3 µs
NAMES: Final = ("bytes", "ways", "costs", "operations")  # counters of cores
_MOST_TURNS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Roofline:
    """Operations beside what a chip can do.

    `operations` are those of the products on cube cores, by the dtype of their operands; `peaks` are operations per
    second by these dtypes, and bytes per second of the ``memory``.
    """

    operations: dict[str, float]
    peaks: dict[str, float]


@dataclass(frozen=True, slots=True)
class Prediction(Shown):
    """How long a launch takes on a chip, by the model.

    Attributes
    ----------
    cycles, seconds : float
        Of the whole launch, with its start.
    utilisation : dict
        Of each unit, the part of the time that it works, on the core that takes longest.
    limit : str
        What the launch waits for: a unit, or ``memory``.
    bytes : dict
        Read from and written to global memory, by all cores.
    levels : dict
        Bytes by level: ``HBM`` and ``L2`` behind global memory, and each way between two memories, of all cores.
    lines : dict
        From the user's line to the cycles that instructions of it take, on one core.
    roofline : Roofline
        Operations of the products, and what the chip can do in a second.
    assumed : tuple of int
        Lines whose course depends on data, for which something usual was taken.
    """

    kernel: str
    target: str
    cores: int
    cycles: float
    seconds: float
    memory_cycles: float
    utilisation: dict[str, float]
    limit: str
    bytes: dict[str, float]
    levels: dict[str, float]
    lines: dict[int, float]
    assumed: tuple[int, ...]
    file: str
    slices: tuple[tuple[str, Slice], ...]
    roofline: Roofline = field(default_factory=lambda: Roofline({}, {}))

    def __str__(self) -> str:
        used = ", ".join(f"{pipe} {share:.0%}" for pipe, share in self.utilisation.items() if share >= 0.005)
        moved = ", ".join(f"{kind} {size / 1e6:.3g} MB" for kind, size in (self.bytes | self.levels).items() if size)
        time = f"{1e6 * self.seconds:.4g} µs, {self.cycles:.4g} cycles"
        rows = [f"{self.kernel} on {self.target}, {self.cores} cores: {time}",
                f"  limited by {self.limit}; of the time: {used}", f"  {moved or 'no copies'}"]  # fmt: skip
        for line, cycles in sorted(self.lines.items(), key=lambda row: -row[1])[:8]:
            rows.append(f"  line {line:4}  {cycles:10.4g} cycles  {linecache.getline(self.file, line).strip()}")
        if self.assumed:
            rows.append(f"  depends on data, so something usual was taken: lines {', '.join(map(str, self.assumed))}")
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        from pypto.backends.ascend.timing.card import prediction_card

        return prediction_card(self)

    def timeline(self, path: str | Path | None = None) -> str:
        """A Perfetto trace of one core's units as JSON, whose slices name the user's lines; written to `path`."""
        rows: list[dict[str, Any]] = []
        for core in dict.fromkeys(core for core, _ in self.slices):
            number = 1 + (core == "cube")
            rows.append({"ph": "M", "pid": number, "name": "process_name", "args": {"name": f"{core} core"}})
            for n, pipe in enumerate(PIPES):
                rows.append({"ph": "M", "pid": number, "tid": n, "name": "thread_name", "args": {"name": pipe}})
        mhz = self.cycles / self.seconds / 1e6
        for core, s in self.slices:
            text = linecache.getline(self.file, s.line).strip()
            start, lasts = round(s.start / mhz, 4), round((s.end - s.start) / mhz, 4)
            rows.append({"ph": "X", "pid": 1 + (core == "cube"), "tid": PIPES.index(s.pipe), "ts": start, "dur": lasts,
                         "name": text or s.name, "args": {"instruction": s.name, "line": s.line}})  # fmt: skip
        made = json.dumps({"traceEvents": rows, "displayTimeUnit": "ns"}, indent=None)
        if path is not None:
            Path(path).write_text(made, encoding="utf-8")
        return made


def grid_names(kernel: BlockKernel) -> tuple[str, ...]:
    """The parameters that hold the grid's axes, in the order in which programs go through them."""
    found = tuple(param.name for param in kernel.params if param.name in GRID_NAMES)
    return found if len(found) == len(GRID_NAMES) else GRID_NAMES


def predict(kernel: BlockKernel, target: AscendTarget, numbers: dict[str, int], grid: tuple[int, int, int],
            blocks: int | None = None, read: ReadNumber | None = None,
            since: Mapping[str, float] = NOTHING) -> Prediction:  # fmt: skip
    """How long a kernel with addresses and events takes.

    Parameters
    ----------
    kernel : BlockKernel
        As `plan` and `sync` leave it.
    target : AscendTarget
        The chip.
    numbers : dict
        Values of the numbers among its parameters, by name.
    grid : (int, int, int)
        Programs along each axis.
    blocks : int, optional
        Blocks of the launch; as many as there are cores or programs without.
    read : function, optional
        The integer at an index of an array parameter, by its name; without it, and where it gives None, a number that
        is loaded is not known.
    since : mapping of str to float
        Arrays that launches before it have written, with the bytes that came into L2 after them.
    """
    programs = grid[0] * grid[1] * grid[2]
    cores = target.vector_cores if kernel.kind == "vector" else target.cube_cores
    cores = 1 if kernel.one_core else cores
    blocks = min(programs, cores) if blocks is None else blocks
    names: dict[str, int | None] = {**numbers, **dict(zip(grid_names(kernel), grid, strict=True))}
    chosen = dict.fromkeys((0, blocks // 2, blocks - 1))
    streams = frozenset(kernel.streams if programs >= kernel.streams_from else ())
    use = followed(kernel, target, names, blocks, streams, read, since)
    given = CoreFacts(RATES_OF[target.arch], streams, use.hits, read)
    places = ({**names, "block": block, "blocks": blocks} for block in chosen if block >= 0)
    measured = [block_time(kernel, place, given) for place in places]
    longest = max(measured, key=lambda cores: max((c.end for c in cores), default=0.0))
    return assembled(kernel, target, longest, blocks, Traffic.of(kernel, target, measured, blocks), use)


@dataclass(frozen=True, slots=True)
class CoreFacts:
    """Parameters that all cores of a launch share."""

    rates: MemoryRates = RATES_OF[2201]
    streams: frozenset[str] = frozenset()
    hits: Mapping[int, float] = field(default_factory=dict)
    read: ReadNumber | None = None


def followed(
    kernel: BlockKernel,
    target: AscendTarget,
    names: dict[str, int | None],
    blocks: int,
    streams: frozenset[str],
    read: ReadNumber | None,
    since: Mapping[str, float],
) -> L2Use:
    """Simulate L2 for the accesses of all cores."""
    accesses, ends = list[Access](), list[npt.NDArray[np.float64]]()
    for kind, body in bodies_of(kernel):
        per_block = target.ratio if kernel.kind == "mix" and kind == "vector" else 1
        lanes = np.arange(blocks * per_block)
        values = {name: None if n is None else np.full(len(lanes), n, np.int64) for name, n in names.items()}
        own = {"block": lanes // per_block, "sub_block": lanes % per_block, "blocks": 0 * lanes + blocks}
        tracer = Tracer(len(lanes), {**values, **own}, read)
        tracer.items(body)
        accesses += tracer.found
        ends += [tracer.clock.astype(np.float64)] * len(tracer.found)
    return l2_use(accesses, ends, streams, target.l2_bytes, RATES_OF[target.arch], since)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that all blocks move: between memories, from and to GM by L2's part, and the cost of these; operations."""

    bytes: dict[str, float]
    ways: dict[str, float]
    costs: dict[str, float]
    operations: dict[str, float]

    @staticmethod
    def of(kernel: BlockKernel, target: AscendTarget, measured: list[list[CoreTime]], blocks: int) -> Traffic:
        return Traffic(*(all_bytes(kernel, target, measured, blocks, name) for name in NAMES))


def all_bytes(
    kernel: BlockKernel, target: AscendTarget, measured: list[list[CoreTime]], blocks: int, name: str
) -> dict[str, float]:
    """A count for all blocks, extrapolated from the simulated ones: the first, the middle and the last."""
    pairs, moved = target.ratio if kernel.kind == "mix" else 1, dict[str, float]()
    for core in (core for cores in measured for core in cores):
        for kind, size in getattr(core, name).items():
            share = size * blocks / len(measured) * (pairs if core.kind == "vector" else 1)
            moved[kind] = moved.get(kind, 0.0) + share
    return moved


def bodies_of(kernel: BlockKernel) -> list[tuple[str, tuple[Item, ...]]]:
    """The code of each kind of core of a block."""
    if kernel.kind == "mix":
        return [("cube", kernel.cube_body), ("vector", kernel.body)]
    return [(kernel.kind, kernel.body if kernel.kind == "vector" else kernel.cube_body or kernel.body)]


def block_time(kernel: BlockKernel, names: dict[str, int | None], given: CoreFacts) -> list[CoreTime]:
    """Simulate the cores of a block as coroutines, which yield where they wait for each other."""
    flags, bodies = Flags(), bodies_of(kernel)
    cores = [
        CoreTime(kind, {**names, "sub_block": 0}, flags, given.rates, given.streams, given.hits, given.read)
        for kind, _ in bodies
    ]
    running = [core.items(body) for core, (_, body) in zip(cores, bodies, strict=True)]
    for _ in range(_MOST_TURNS):
        left = [job for job in running if next(job, "done") != "done"]
        if not left:
            break
        running = left
        if len(running) > 1:
            skip_together(cores, flags)
    return cores


def assembled(
    kernel: BlockKernel, target: AscendTarget, cores: list[CoreTime], blocks: int, traffic: Traffic, use: L2Use
) -> Prediction:
    """The prediction from the simulation of the slowest block, the traffic and the L2 model."""
    longest = max(cores, key=lambda core: core.end)
    cycles, moved = longest.end, traffic.bytes
    read = sum(size for way, size in moved.items() if way.startswith("GM to "))
    written = sum(size for way, size in moved.items() if way.endswith(" to GM"))
    from_hbm = through_hbm(traffic.ways, use)
    memory = memory_seconds(target, traffic, use) * target.mhz * 1e6
    total = max(cycles, memory) + LAUNCH
    used = {pipe: max(core.busy[pipe] for core in cores) / total for pipe in PIPES}
    limit = "memory" if memory > cycles else max(used, key=lambda pipe: used[pipe])
    lines: dict[int, float] = {}
    for core in cores:
        for line, spent in core.lines.items():
            lines[line] = lines.get(line, 0.0) + spent
    assumed = tuple(sorted({line for core in cores for line in core.assumed if line}))
    slices = tuple((core.kind, s) for core in cores for s in core.slices)
    through = {"GM read": read, "GM written": written} if read + written else {}
    levels = {"HBM": from_hbm, "L2": max(0.0, read + written - from_hbm), **dict(sorted(moved.items()))}
    made = traffic.operations
    return Prediction(kernel.name, target.name, blocks, total, target.seconds(total), memory, used, limit, through,
        levels, lines, assumed, kernel.file, slices, Roofline(made, peaks_of(target, made)))  # fmt: skip


def peaks_of(target: AscendTarget, operations: Mapping[str, float]) -> dict[str, float]:
    """Operations per second of all cube cores, by dtype, and bytes per second of HBM."""
    cycles = target.cube_cores * target.mhz * 1e6
    return {"memory": target.hbm_bytes_per_second} | {
        name: cycles * operations_per_cycle(DType(name).itemsize) for name in operations
    }


def through_hbm(ways: dict[str, float], use: L2Use) -> float:
    """Bytes between HBM and L2, or their cost."""
    through_l2 = ways.get("read", 0.0) * (1 - use.read_hits) + ways.get("written", 0.0) * use.evicted
    return through_l2 + ways.get("streamed", 0.0)


def memory_seconds(target: AscendTarget, traffic: Traffic, use: L2Use) -> float:
    """Seconds of memory traffic: the longest of all reads, all writes, and the contention at one place."""
    hit = traffic.ways.get("read", 0.0) * use.read_hits + traffic.ways.get("kept read", 0.0)
    written = traffic.ways.get("written", 0.0) + traffic.ways.get("kept written", 0.0)
    reads = through_hbm(traffic.costs, use) / target.hbm_bytes_per_second + hit / target.l2_bytes_per_second
    to_arrays = sum(traffic.ways.get(way, 0.0) for way in ("read", "streamed", "written"))
    return max(reads, written / target.l2_written_per_second, use.same_place * to_arrays)
