"""Why a kernel was compiled as it was: accesses, stores past the caches, fusion, memory of its own, and versions.

Everything here is asked of the parts that decide (access analysis, plan, fusion, emission), for the very IR and target
of the version that the arguments lead to; nothing is decided again.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.arguments import Boundary
from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.codegen.nontemporal import (
    arrays_read,
    is_written_once,
    loaded_bytes,
    moved_bytes,
    nontemporal_alignment,
    why_not_nontemporal,
)
from pypto.backends.cpu.codegen.outlining import OUTLINE_ABOVE, statement_count
from pypto.backends.cpu.codegen.persistent_loops import is_nests_only
from pypto.backends.cpu.loopir.allocate import BufferAllocation, allocate_buffers, is_view
from pypto.backends.cpu.loopir.build import LoopIRBuilder, build_schedule
from pypto.backends.cpu.loopir.cost import negligible_nests
from pypto.backends.cpu.loopir.fusion import LoopFuser, writes
from pypto.backends.cpu.loopir.index_maps import is_inlinable, is_tile
from pypto.backends.cpu.loopir.ir import Control, Item, Nest, Scalar, Stmt, item_bytes
from pypto.backends.cpu.loopir.materialize import (
    Materialization,
    is_load_clobbered,
    may_alias,
    plan_materialization,
    requires_buffer,
)
from pypto.backends.cpu.loopir.use_sets import use_set_of
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.tile.legalize import before_coarsening, legalize
from pypto.backends.cpu.tile.unswitch_modulo import hot_version, wrapped_dims
from pypto.errors.notebook import cell_name
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import TileType
from pypto.loc import UNKNOWN, Loc
from pypto.markup import Shown
from pypto.ops.memory import Access
from pypto.passes import optimize
from pypto.passes.affine import RULES
from pypto.passes.pattern import constant_of, root

_CORES: Final = MappingProxyType({
    "vector": "vector cores", "cube": "cube cores", "mix": "cube cores, with the vector cores of their blocks",
})  # fmt: skip
_WRAPS: Final = (
    "its index wraps around, or stays at an end of the array: programs that store nothing of what comes of that read "
    "it where it lies, others find its elements one by one"
)
_FORMS: Final = ("cube cores alone", "cube and vector cores together")  # in the order in which they are tried


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was decided: about what (`topic`), for which place, what and why, and what would change it."""

    topic: str
    loc: Loc
    text: str
    way: str = ""


@dataclass(frozen=True, slots=True)
class Explanation(Shown):
    """All findings for one version of a kernel, in the order of the source. `print` shows them under their lines."""

    kernel: str
    version: str
    scratch_bytes: int
    findings: tuple[Finding, ...]
    scratch_of: str = "thread"

    @property
    def scratch_text(self) -> str:
        """How much memory of its own the kernel needs."""
        return f"scratch memory: {size(self.scratch_bytes)} per {self.scratch_of}"

    def about(self, topic: str) -> list[Finding]:
        """Findings of a topic: ``access``, ``stream``, ``fusion``, ``memory``, ``version``; ``form``, ``scalar``."""
        return [finding for finding in self.findings if finding.topic == topic]

    def __str__(self) -> str:
        lines = [f"{self.kernel}, compiled for {self.version}"]
        lines.append(self.scratch_text)
        for (file, line), group in groupby(self.findings, lambda f: (f.loc.user.file, f.loc.user.line)):
            lines += ["", f"{short(file)}:{line}  {linecache.getline(file, line).strip()}"]
            for finding in group:
                lines.append(f"  {finding.topic:8}{finding.text}" + (f"; {finding.way}" if finding.way else ""))
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        from pypto.debug.cards import explanation_card

        return explanation_card(self)


def short(file: str) -> str:
    """A file without its folder, a notebook's cell by its number."""
    cell = cell_name(file)
    return cell if cell != file else Path(file).name


@Boundary()
def explain(kernel: Any, *args: Any, **given: Any) -> Explanation:
    """Explain the version of a kernel that a launch with these arguments runs; compiles it if need be.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def total(x, y):
    ...     y[0] = pto.sum(x[:])
    >>> from pypto.debug.explain import explain
    >>> [f.text for f in explain(total, np.ones((4, 8), np.float32)[:, 0], np.ones(1, np.float32)).about("access")]
    ['its elements lie apart by a stride known at run time: each is loaded alone']
    """
    return explained(kernel, kernel.compile(*args, **given))


def explained(kernel: Any, version: Any) -> Explanation:
    """Explain a compiled version."""
    if version.program.backend.name == "ascend":
        return on_ascend(kernel, version)
    program = version.program
    target = program.backend.target
    whole = before_coarsening(optimize(program.function))
    function, both = legalize(hot_version(whole), target), legalize(whole, target)
    function.attrs["noalias"] = both.attrs["noalias"] = version.noalias
    plan = plan_materialization(function, target)
    storage = allocate_buffers(plan, target)
    items = LoopIRBuilder(plan, storage).region(function.body)
    needed = build_schedule(both, target).scratch_bytes
    found = [
        *accesses(function),
        *masks(version),
        *(Finding("access", op.loc, _WRAPS) for op in whole.walk() if whole.attrs.get("twice") and wrapped_dims(op)),
        *streams(function, items, target),
        *fusion(LoopFuser(plan, storage), items),
        *memory(plan, storage),
        *versions(kernel, function.loc),
    ]
    return Explanation(kernel.signature.kernel, str(version), needed, in_order(found))


def in_order(found: list[Finding]) -> tuple[Finding, ...]:
    """Findings by line, each once."""
    ordered = sorted(found, key=lambda f: (f.loc.user.file, f.loc.user.line))
    unique = {(f.topic, f.loc.user.file, f.loc.user.line, f.text): f for f in ordered}
    return tuple(unique.values())


def on_ascend(kernel: Any, version: Any) -> Explanation:
    """For a chip: which cores a kernel runs on, why on no better ones, and its accesses."""
    from pypto.backends.ascend.cube.forms import choose_form
    from pypto.debug.on_ascend import remarks

    function = optimize(version.program.function)
    block, reasons = choose_form(function, version.program.backend.target)
    loc, cores = function.loc, _CORES[block.kind]
    better = (f"not on {form}: {text.splitlines()[0]}" for form, text in zip(_FORMS, reasons, strict=False))
    forms = [Finding("form", loc, text) for text in (f"it runs on {cores}", *better)]
    file, noted = loc.user.file, remarks(block)
    slow = [Finding(topic, whole_line(file, line) if line else loc, text) for topic, line, text in noted]
    found = [*forms, *slow, *accesses(function), *versions(kernel, loc)]
    return Explanation(kernel.signature.kernel, str(version), block.workspace, in_order(found), "block")


def whole_line(file: str, line: int) -> Loc:
    code = linecache.getline(file, line).rstrip()
    return replace(UNKNOWN, file=file, line=line, col=len(code) - len(code.lstrip()), end_line=line, end_col=len(code))


def versions(kernel: Any, loc: Loc) -> Iterator[Finding]:
    """Why there are several versions, where that is so."""
    made = kernel.specializations
    for number, version in enumerate(made, 1):
        if len(made) > 1:
            yield Finding("version", loc, f"number {number} of {len(made)}: {version.reason}")


# --- accesses ------------------------------------------------------------------------------------------------------


def accesses(function: Function) -> Iterator[Finding]:
    """Loads and stores that are not made of whole contiguous registers."""
    for op in function.walk():
        if op.name not in ("tile_load", "tile_store"):
            continue
        access, verb = Access.of(op), op.name.removeprefix("tile_")
        text, way = lanes(access, f"{verb}ed" if verb == "load" else "stored")
        if text:
            yield Finding("access", op.loc, text, way)
        if access.mask is not None:
            text = "its mask is no bound of an index: every element is tested"
            yield Finding("access", op.loc, text, "a mask such as `offsets < n` becomes the end of the tile")


def masks(version: Any) -> Iterator[Finding]:
    """Accesses that run with masks in every part of a tile that lies across an edge of its array."""
    target, function = version.program.backend.target, optimize(version.program.function)
    if target.has_masks:
        return
    function.attrs["noalias"] = version.noalias
    for op, reason in lower(function, target).masked:
        if op.name in ("tile_load", "tile_store") and reason:
            yield Finding("access", op.loc, f"all of a tile across an edge of the array runs with masks: {reason}")


def lanes(access: Access, done: str) -> tuple[str, str]:
    """What neighbouring elements of an access are to each other, where they are no neighbours in memory."""
    last = max((d for d, n in enumerate(access.shape) if n > 1), default=-1)
    if last < 0:
        return "", ""
    if is_tile(access.base):
        cause = bent(access.base)
        why = f" that comes of {cause}" if cause else ""
        if access.base.shape[last] == 1:
            return f"rows are found by an index{why}; each row is contiguous", ""
        way = "make the index a sum of `arange`s times numbers, if it is one"
        return f"gather: every element has an address of its own{why}", way
    stride = constant_of(access.strides[last])
    if stride is None:
        way = "pass an array whose last dimension is contiguous, or let the tile's last dimension follow it"
        return f"its elements lie apart by a stride known at run time: each is {done} alone", way
    if stride not in (0, 1):
        return f"its elements lie {stride} apart: registers are put together from several places", ""
    return "", ""


def bent(base: Value) -> str:
    """The op, with its line, that keeps pointers from being a base plus index times stride."""
    seen: set[Value] = set()
    waiting = [base]
    while waiting:
        v = waiting.pop(0)
        if v.op is None or v in seen:
            continue
        seen.add(v)
        if v.op.name not in RULES and is_tile(v):
            return told(v.op)
        waiting += v.op.operands
    return ""


def told(op: Op) -> str:
    """An op with its line."""
    name = {"tile_load": "a load", "tile_store": "a store"}.get(op.name, f"`{op.name}`")
    return f"{name} in line {op.loc.user.line}" if op.loc != UNKNOWN else name


# --- stores past the caches ----------------------------------------------------------------------------------------


def streams(function: Function, items: list[Item], target: CpuTarget) -> Iterator[Finding]:
    """When stores go past the caches, or why they never do."""
    last_level, few, read = (
        target.caches[-1],
        negligible_nests(items, target.vector_bytes // 4),
        arrays_read(function)[0],
    )
    quick = {s.op for nest in few for s in nest.stmts}
    in_parts = statement_count(items) > OUTLINE_ABOVE or function.attrs.get("twice")
    turns = [(items, None)] if in_parts else repeated(items)
    places = {s.op: ([o.the_op for o in nest.stmts if o.kind == "store"], loop) for part, loop in turns
              for nest in part if isinstance(nest, Nest) for s in nest.stmts}  # fmt: skip
    for op in function.walk():
        if op.name != "tile_store" or Access.of(op).shape == (1,) * len(Access.of(op).shape):
            continue
        access, place = Access.of(op), places.get(op)
        reason = "it takes next to no time beside a loop or product" if op in quick else cached(op, place, read)
        if reason or place is None:
            yield Finding("stream", op.loc, f"the store goes through the caches: {reason}")
            continue
        loop = place[1]
        loaded = arrays_read(function)[1] if loop is None else loaded_bytes(loop.regions[0].ops, loop)
        count, moved = last_level // moved_bytes(access, loaded), f"which load and store {size(last_level)} in all"
        where = "in grids of more than {:,} programs" if loop is None else "in loops of more than {:,} turns in all"
        way = f"its rows must then begin at multiples of {nontemporal_alignment(access)} bytes"
        yield Finding("stream", op.loc, f"the store goes past the caches {where.format(count)}, {moved}", way)


def repeated(items: list[Item], loop: Op | None = None) -> Iterator[tuple[list[Item], Op | None]]:
    """What a program runs once, and what loops of nests run in each of their turns."""
    yield items, loop
    for item in (x for x in items if isinstance(x, Control)):
        for region in item.regions:
            inner = list(repeated(region, item.op))
            yield from inner if item.op.name == "for" and is_nests_only(region) else inner[1:]


def cached(op: Op, place: tuple[list[Op], Op | None] | None, read: set[Value | None]) -> str:
    """Why a store never goes past the caches; `place` are its nest's stores and loop, None where a branch decides."""
    if place is None:
        return "it is in a branch, in a loop around products, or in a loop of a kernel that is compiled in parts"
    if not is_written_once(Access.of(op), place[1]):
        return "its loop stores to one place again and again"
    if root(op.operands[0]) in read:
        return "the kernel reads that array, too"
    other = next((o for o in place[0] if o is not op and why_not_nontemporal(Access.of(o))), None)
    beside = f"the one in line {other.loc.user.line}, in the same loop, does" if other is not None else ""
    return why_not_nontemporal(Access.of(op)) or beside


# --- fusion --------------------------------------------------------------------------------------------------------


def fusion(fuser: LoopFuser, items: list[Item]) -> Iterator[Finding]:
    """Why neighbouring nests are two."""
    before: Nest | None = None
    scalars: list[Op] = []  # since that nest
    for item in items:
        if isinstance(item, Scalar):
            scalars.append(item.op)
            continue
        if isinstance(item, Nest) and before is not None:
            yield from apart(fuser, before, scalars, item)
        before, scalars = item if isinstance(item, Nest) else None, []
        for region in item.regions if isinstance(item, Control) else ():
            yield from fusion(fuser, region)


def apart(fuser: LoopFuser, a: Nest, scalars: list[Op], b: Nest) -> Iterator[Finding]:
    """Why what begins a nest is not in the one before."""
    for stmt in (*a.stmts, *b.stmts):
        fuser.reads[stmt] = use_set_of(stmt, fuser.storage.of)
    stmt = b.stmts[0]
    reason = refusal(fuser, a, scalars, stmt)
    if reason:
        text = f"not in one loop with line {place_of(a.stmts[-1]).user.line}: {reason}"
        yield Finding("fusion", place_of(stmt), text)


def refusal(fuser: LoopFuser, nest: Nest, scalars: list[Op], stmt: Stmt) -> str:
    """Why a statement is not in a nest, in the order in which fusion asks; empty where nothing flows between them."""
    numbers = {s.result for s in nest.stmts if s.kind in ("reduce", "arg")}
    for op in scalars:
        if numbers.intersection(op.operands):
            numbers.update(op.results)
    if numbers & fuser.reads[stmt].scalars:
        return "it needs the number that a reduction there gives at its end"
    for other in nest.stmts:
        if fuser.has_memory_conflict(other, stmt):
            store = other if other.kind == "store" else stmt
            shared = store.op is not None and any(may_alias(fuser.plan.function, op, store.op)
                for op, _ in fuser.reads[stmt if store is other else other].loads)  # fmt: skip
            return "one stores to memory that the other may touch" + (" (arrays that may overlap)" if shared else "")
    met = [o for o in nest.stmts if writes(o, fuser.used(stmt)) or writes(stmt, fuser.used(o))]
    return next((why for why in (unlike(fuser, other, stmt) for other in met) if why), "")


def unlike(fuser: LoopFuser, a: Stmt, b: Stmt) -> str:
    """Why two statements share no loop; empty where they could."""
    if fuser.max_outer_fusable_depth(a, b) > 0:
        return ""
    if a.reduced and writes(a, fuser.reads[b].buffers):
        return "it needs the whole of a reduction"
    if "scan" in (a.kind, b.kind):
        return "a scan runs in a nest of its own"
    if not a.loops or not b.loops or a.domain[a.loops[0]] != b.domain[b.loops[0]]:
        sizes = ("x".join(map(str, s.sizes)) or "one element" for s in (b, a))
        return "their loops differ: " + " and ".join(sizes)
    if fuser.max_fusable_depth(a, b) < 1:
        return "it reads elements that are made in other rounds of the loop (another order, or a shared buffer)"
    return "their only common loop runs along the lanes of registers"


def place_of(stmt: Stmt) -> Loc:
    op = stmt.op or (stmt.value.op if stmt.value is not None else None)
    return op.loc if op is not None else UNKNOWN


# --- memory --------------------------------------------------------------------------------------------------------


def memory(plan: Materialization, storage: BufferAllocation) -> Iterator[Finding]:
    """Tiles that are kept in scratch memory, not in registers."""
    for v in plan.readers:
        if v.op is None or v not in plan.materialized or is_view(v) or v not in storage.of or storage.of[v].contracted:
            continue
        if isinstance(v.type, TileType) and is_inlinable(v.op):
            held = size(storage.of[v].elements * item_bytes(v.tile.elem))
            text = f"the tile that `{v.op.name}` makes takes {held} of memory: {kept_for(plan, v.op, v)}"
            yield Finding("memory", v.op.loc, text)


def kept_for(plan: Materialization, op: Op, v: Value) -> str:
    """The reason of `plan.decide`, in words."""
    user = next((user for user in plan.uses[v] if requires_buffer(user, v)), None)
    if user is not None:
        how = "needs it whole" if user.name == "dot" else "reads it in another order than it is made in"
        return f"{told(user)} {how}"
    if is_load_clobbered(plan, op, v):
        return "a store may change what it was loaded from before its last use"
    if len(plan.readers[v]) > 1:
        return f"{len(plan.readers[v])} statements read it, and making it again would take longer"
    return "it is made once and read in every round of a loop"


def size(count: int) -> str:
    """Bytes for people."""
    for unit, n in (("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= n:
            return f"{count / n:.3g} {unit}"
    return f"{count} bytes"
