"""What the model says: cycles, what limits them, bytes, and a timeline."""

from __future__ import annotations

import json
import linecache
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pypto.backends.ascend.blockir.instructions import PIPES
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.timing.core import CoreTime, Flags, ReadNumber, Slice
from pypto.backends.ascend.timing.steady_state import skip_together
from pypto.markup import Shown

LAUNCH: Final = 5400.0  # cycles until the cores begin: 3 µs
_HALF: Final = 1400  # bytes of a copy at which memory gives half of what it can: fitted to copies of 128 B to 128 KB
_MOST_TURNS: Final = 1_000_000


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


def predict(kernel: BlockKernel, target: AscendTarget, numbers: dict[str, int], grid: tuple[int, int, int],
            blocks: int | None = None, footprint: float = math.inf,
            read: ReadNumber | None = None) -> Prediction:  # fmt: skip
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
    footprint : float
        Bytes of all arrays: what is moved beyond them is taken to come from L2.
    read : function, optional
        The integer at an index of an array parameter, by its name; without it, and where it gives None, a number that
        is loaded is not known.
    """
    programs = grid[0] * grid[1] * grid[2]
    cores = target.vector_cores if kernel.kind == "vector" else target.cube_cores
    cores = 1 if kernel.one_core else cores
    blocks = min(programs, cores) if blocks is None else blocks
    names: dict[str, int | None] = {**numbers, **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True))}
    chosen = dict.fromkeys((0, blocks // 2, blocks - 1))
    streams = frozenset(kernel.streams if programs >= kernel.streams_from else ())
    measured = [
        block_time(kernel, {**names, "block": block, "blocks": blocks}, streams, read) for block in chosen if block >= 0
    ]
    longest = max(measured, key=lambda cores: max((c.end for c in cores), default=0.0))
    moved = all_bytes(kernel, target, measured, blocks)
    return assembled(kernel, target, longest, blocks, moved, footprint)


def all_bytes(
    kernel: BlockKernel, target: AscendTarget, measured: list[list[CoreTime]], blocks: int
) -> dict[str, float]:
    """What all blocks move, from those that were looked at: the first, one in the middle and the last."""
    pairs, moved = target.ratio if kernel.kind == "mix" else 1, dict[str, float]()
    for core in (core for cores in measured for core in cores):
        for kind, size in core.bytes.items():
            share = size * blocks / len(measured) * (pairs if core.kind == "vector" else 1)
            moved[kind] = moved.get(kind, 0.0) + share
    return moved


def block_time(
    kernel: BlockKernel,
    names: dict[str, int | None],
    streams: frozenset[str] = frozenset(),
    read: ReadNumber | None = None,
) -> list[CoreTime]:
    """The cores of a block, which give way to each other where they wait."""
    flags = Flags()
    bodies = [("vector", kernel.body)] if kernel.kind == "vector" else [("cube", kernel.cube_body or kernel.body)]
    if kernel.kind == "mix":
        bodies = [("cube", kernel.cube_body), ("vector", kernel.body)]
    cores = [CoreTime(kind, {**names, "sub_block": 0}, flags, streams, read) for kind, _ in bodies]
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
    kernel: BlockKernel,
    target: AscendTarget,
    cores: list[CoreTime],
    blocks: int,
    moved: dict[str, float],
    footprint: float,
) -> Prediction:
    longest = max(cores, key=lambda core: core.end)
    cycles = longest.end
    read = sum(size for way, size in moved.items() if way.startswith("GM to "))
    written = sum(size for way, size in moved.items() if way.endswith(" to GM"))
    again = max(0.0, read + written - footprint)
    kept = min(written, target.l2_bytes) if any(way == "streamed" for core in cores for _, way in core.copies) else 0.0
    from_hbm = max(0.0, read + written - again - kept)
    memory = memory_cycles(target, cores, from_hbm, 1 - kept / written if kept else 1.0)
    rates = target.l2_bytes_per_second, target.l2_written_per_second
    held = again / max(1.0, read + written)
    memory += max(held * size / rate for size, rate in zip((read, written), rates, strict=True)) * target.mhz * 1e6
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
    levels = {"HBM": from_hbm, "L2": again + kept, **dict(sorted(moved.items()))}
    return Prediction(kernel.name, target.name, blocks, total, target.seconds(total), memory, used, limit, through,
        levels, lines, assumed, kernel.file, slices)  # fmt: skip


def memory_cycles(target: AscendTarget, cores: list[CoreTime], total: float, stored: float) -> float:
    """Cycles that HBM takes for so many bytes, to which that part of the stores comes: large copies are faster."""
    copies: dict[int, float] = {}
    for core in cores:
        for (each, way), size in core.copies.items():
            copies[each] = copies.get(each, 0.0) + size * (stored if way == "written" else 1.0)
    everything = sum(copies.values())
    rates = {each: target.hbm_bytes_per_second * each / (each + _HALF) for each in copies}
    seconds = sum(total * size / everything / rates[each] for each, size in copies.items() if everything)
    return seconds * target.mhz * 1e6
