"""The blocking of a matrix product (MR, NR, KC, MC, NC, unrolling and prefetch distances), chosen in one place.

As in BLIS: an MR by NR register tile of C fills the vector registers; KC is such that the rows of A of a register tile
stay in the first-level cache, and a step's panels of B and rows of A in half of the second. K blocking asks for KC on
Tile IR, the lowering for the rest; MC and NC are the tile of a program, after coarsening. What the user sets comes with
the target (`pto.jit(blocking=...)`), and is checked here against the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from pypto.blocking import Blocking
from pypto.errors.launch import WrongBlocking
from pypto.ir.core import Function, Op, Value
from pypto.passes.analysis.dot_facts import (
    dot_dtype,
    may_be_skinny,
    packed_bytes,
    packing_factor,
    reads_both_in_place,
    split_terms,
)
from pypto.passes.analysis.scalar_evolution import ScalarEvolution
from pypto.passes.k_blocking import ReductionLoop
from pypto.passes.target_facts import TargetFacts

Left = Literal["scratch", "in_place", "column_major"]  # where A is read


@dataclass(frozen=True, slots=True)
class BlockingFacts:
    """What a blocking is computed from, beside a target's registers and caches. Measured on x86-64 with AVX-512."""

    amx_mr: int = 32  # two tiles of 16 rows
    in_place_mr: int = 8  # rows of A that lie far apart: often they share a set of the first-level cache
    shallow_mr: int = 4  # rows where K is shallow, or code is cold
    shallow_k: int = 64  # along so few numbers, C is loaded and stored for as long as it is computed
    few_rows: int = 8  # of a register tile, up to which a row that does not exist costs much
    half_panel: int = 2  # registers of half a panel of four; a narrower panel is not halved
    l1_rows: int = 8  # of A, whose part of a step stays in the first-level cache
    l1_rows_amx: int = 32
    max_rows: int = (
        128  # of A that count for the second-level cache; of more, the first ones leave before the last come
    )
    l1_reserved: int = 24 << 10  # bytes of the first-level cache for what goes by, sums among it
    l1_reserved_single_step: int = 16 << 10  # where a step is the only one: it has no sums to load
    min_row_bytes: int = 1024  # of a step
    kc_unit: int = 16  # numbers that KC is a multiple of
    kc_unit_bytes: int = 64  # and bytes: of a register, or of a row of an AMX tile
    k_unroll: int = 4
    min_unrolled_fmas: int = 32  # per round, that hide the loop's overhead; more only compile longer
    panel_prefetch: int = 1536
    pack_prefetch: int = 4  # further ahead, line fill buffers would run out
    local_programs: int = 8  # programs in a row that mostly share packed panels, where scalars decide
    amx_short_row_bytes: int = 256  # rows of A up to which AMX reads them where they lie, however far apart
    amx_copied_columns: int = 512  # of C, from which a copy of A always pays with AMX
    skinny_vectors: int = 2  # registers of columns in an inner step of a product of few rows
    single_row_vectors: int = 4  # the same with one row of A: longer pieces of a row of B come faster
    registers_per_sum: int = 5  # per row of C in flight: so many rows hide the latency of multiply-adds
    skinny_l1_rows: int = 8  # with more rows, a step takes so long that lines prefetched to L1 would be evicted


FACTS: Final = BlockingFacts()


@dataclass(frozen=True, slots=True)
class SkinnyBlocking:
    """The blocking of a product of few rows, which reads B row by row; see `skinny`."""

    mr: int  # rows of C in flight, at most
    vectors: int  # registers of columns in an inner step
    k_unroll: int  # rows of B in an inner step
    prefetches_to_l1: bool  # the next rows of B; else to the second level


def choose_blocking(dot: Op, target: TargetFacts, left: Left = "scratch", single_step: bool = False) -> Blocking:
    """The blocking of a product: KC at most, as the only step along K with `single_step`.

    Raises
    ------
    WrongBlocking
        When the user has set what this product cannot have on this target.
    """
    user = target.blocking
    result = dot.results[0].shape
    lanes = target.vector_bytes // dot_dtype(dot.operands[1].dtype).itemsize
    check_steps(dot, target, lanes)
    nr = user.nr or choose_nr(dot, target, left)
    while user.mr and not user.nr and nr > lanes and not fits_registers(user.mr, nr // lanes, dot, target):
        nr //= 2
    chosen = Blocking(
        mr=user.mr or choose_mr(dot, target, nr // lanes, left),
        nr=nr,
        kc=user.kc or max_kc(dot, target, FACTS.l1_reserved_single_step if single_step else FACTS.l1_reserved),
        mc=result[-2],
        nc=result[-1],
        k_unroll=user.k_unroll or FACTS.k_unroll,
        panel_prefetch=user.panel_prefetch or FACTS.panel_prefetch,
        pack_prefetch=user.pack_prefetch or FACTS.pack_prefetch,
    )
    if user.overrides:
        check_tile(dot, target, chosen, left, lanes)
    return chosen


def blocking_of(dot: Op, target: TargetFacts, left: Left) -> Blocking:
    """The blocking of a product as it is lowered: KC is the depth of its tile."""
    return replace(choose_blocking(dot, target, left), kc=dot.operands[0].shape[-1])


def choose_skinny_blocking(dot: Op, target: TargetFacts) -> SkinnyBlocking | None:
    """The blocking with which a product reads B row by row; None where it has too many rows for that."""
    if not may_be_skinny(dot, target):
        return None
    rows = dot.results[0].shape[-2]
    user = target.blocking
    return SkinnyBlocking(
        mr=user.mr or target.registers // FACTS.registers_per_sum,
        vectors=FACTS.single_row_vectors if rows == 1 else FACTS.skinny_vectors,
        k_unroll=user.k_unroll or target.registers // (2 * FACTS.skinny_vectors),
        prefetches_to_l1=rows <= FACTS.skinny_l1_rows,
    )


def cold_mr(mr: int) -> int:
    """MR of code that runs seldom: few kernels of few rows compile soon."""
    return min(mr, FACTS.shallow_mr)


# --- MR and NR ------------------------------------------------------------------------------------------------------


def uses_amx(dot: Op, target: TargetFacts) -> bool:
    return target.has_amx and packing_factor(dot, target) > 0


def reserved_registers(target: TargetFacts) -> int:
    """Registers for the broadcast of A, and what else is computed."""
    return 1 if target.registers > 16 else 2


def fits_registers(mr: int, vectors: int, dot: Op, target: TargetFacts) -> bool:
    """Whether accumulators fit into the registers beside a row of the panel."""
    if uses_amx(dot, target):
        return mr <= FACTS.amx_mr
    return (mr + 1) * vectors + reserved_registers(target) <= target.registers


def choose_nr(dot: Op, target: TargetFacts, left: Left) -> int:
    """NR: columns of a micro-panel, in one, two or four registers.

    With four registers by six rows there is a load for every 2.4 multiply-adds. With two by eight, which is what fits
    where A is read in place, there is one for every 1.6. Alone on a core both wait for the multiply-adds; with another
    thread on it, they wait for the loads.
    """
    b: Value = dot.operands[1]
    lanes = target.vector_bytes // dot_dtype(b.dtype).itemsize
    is_in_place = left == "in_place" and not packing_factor(dot, target)
    if is_in_place and target.vector_bytes >= 64 and b.shape[-1] % (4 * lanes) == 0:
        return 4 * lanes
    return lanes * (2 if b.shape[-1] > lanes else 1)


def choose_mr(dot: Op, target: TargetFacts, vectors: int, left: Left) -> int:
    """MR: rows whose accumulators fit into the registers, beside a row of the panel and a broadcast.

    Fewer where A is read in place: rows that lie a multiple of 4 KB apart share a set of the first-level cache, which
    has room for eight of them in twelve ways, beside what else goes by. A column-major A has a register for the rows.
    """
    fitting = max(1, (target.registers - vectors - reserved_registers(target)) // vectors)
    if left == "column_major":
        return min(fitting, target.vector_bytes // dot_dtype(dot.operands[0].dtype).itemsize)
    mr = fitting
    if uses_amx(dot, target):
        mr = FACTS.amx_mr
    elif left == "in_place":
        mr = min(fitting, max(FACTS.in_place_mr, 2 * FACTS.in_place_mr // vectors))
    return cold_mr(mr) if is_shallow(dot, vectors, left) else mr


def is_shallow(dot: Op, vectors: int, left: Left) -> bool:
    """Whether few rows are as fast as more, which would leave a remainder: that is one more kernel to compile."""
    rows, depth = dot.operands[0].shape[-2:]
    is_wide = left == "in_place" and vectors > FACTS.half_panel
    return is_wide and depth <= FACTS.shallow_k and rows % FACTS.shallow_mr == 0


# --- KC -------------------------------------------------------------------------------------------------------------


def choose_kc(function: Function, loop: ReductionLoop, target: TargetFacts) -> int:
    """KC of a loop: as deep as fits the caches, and such that no remainder is left.

    Where K is not known, only dots that read both sides in place go deeper: they stop where the sides do, which must be
    the same for all programs that share panels.
    """
    deepest = min(choose_blocking(dot, target).kc for dot in loop.dots)
    deepest_single = min(choose_blocking(dot, target, single_step=True).kc for dot in loop.dots)
    if loop.preserves_zero and loop.extent_from_start:
        return even_kc(loop, deepest, deepest_single, target)
    if loop.preserves_zero and loop.has_runtime_bounds and has_invariant_bounds(function, loop):
        in_place = all(reads_both_in_place(dot, loop.uses, target) for dot in loop.dots)
        step = deepest_single if target.blocking.kc else max(loop.step, deepest_single)
        return step if in_place else loop.step
    trips = loop.extent_from_start // loop.step
    return loop.step * next((n for n in range(min(deepest // loop.step, trips), 0, -1) if trips % n == 0), 1)


def even_kc(loop: ReductionLoop, deepest: int, deepest_single: int, target: TargetFacts) -> int:
    """KC where K is known: as few steps as the caches allow, all of them about as deep."""
    extents = [loop.extent(load, d) for load, d in loop.loads]
    depth = loop.extent_from_start
    if extents and None not in extents:
        depth = min(depth, max(n for n in extents if n is not None))
    count = 1 if depth <= deepest_single else -(-depth // deepest)
    unit = FACTS.kc_unit
    if depth >= FACTS.kc_unit_bytes:
        unit = max(kc_unit(dot, target) for dot in loop.dots)
    return max(FACTS.kc_unit, -(-depth // (count * unit)) * unit)


def has_invariant_bounds(function: Function, loop: ReductionLoop) -> bool:
    return not any(ScalarEvolution.of(function).depends_on_program(v, (0,)) for v in loop.op.operands[:2])


def max_kc(dot: Op, target: TargetFacts, reserved: int) -> int:
    """How far along K the operands' tiles fit into half of the second-level cache, and rows of A into the first."""
    a, b = dot.operands[:2]
    size = packed_bytes(dot, target) * split_terms(dot, target)
    l1_rows = FACTS.l1_rows_amx if uses_amx(dot, target) else FACTS.l1_rows
    row = max(FACTS.min_row_bytes, (target.caches[0] - reserved) // l1_rows)
    both = target.caches[1] // 2 // (min(a.shape[-2], FACTS.max_rows) + b.shape[-1])
    unit = kc_unit(dot, target)
    return max(unit, min(row, both) // size // unit * unit)


def kc_unit(dot: Op, target: TargetFacts) -> int:
    return max(FACTS.kc_unit, FACTS.kc_unit_bytes // packed_bytes(dot, target))


# --- what the user sets ---------------------------------------------------------------------------------------------


def check_steps(dot: Op, target: TargetFacts, lanes: int) -> None:
    """Refuse an NR or KC that a product cannot have on a target."""
    user = target.blocking
    unit = kc_unit(dot, target)
    widths = [n * lanes for n in ((1, 2) if uses_amx(dot, target) else (1, 2, 4))]
    if user.nr and user.nr not in widths:
        problem = f"registers have {lanes} numbers of this product"
        raise refused(dot, "nr", user.nr, problem, f"it can be {', '.join(map(str, widths))}")
    if user.kc % unit:
        problem = f"products of {dot.operands[0].dtype} take {unit} numbers along K at a time"
        raise refused(dot, "kc", user.kc, problem, f"make it a multiple of {unit}")


def check_tile(dot: Op, target: TargetFacts, chosen: Blocking, left: Left, lanes: int) -> None:
    """Refuse a register tile that does not fit into the registers."""
    vectors = chosen.nr // lanes
    if left == "column_major" and chosen.mr > lanes:
        way = f"it can be {lanes} at most"
        raise refused(dot, "mr", chosen.mr, "A is read by columns, a register of rows at a time", way)
    if not fits_registers(chosen.mr, vectors, dot, target):
        limit = (target.registers - reserved_registers(target)) // vectors - 1
        limit = FACTS.amx_mr if uses_amx(dot, target) else limit
        problem = f"a register tile of {chosen.mr} by {chosen.nr} does not fit into the registers"
        raise refused(dot, "mr", chosen.mr, problem, f"with nr={chosen.nr} it can be {limit} at most")


def refused(dot: Op, field: str, value: int, problem: str, way: str) -> WrongBlocking:
    return WrongBlocking(dot.loc, field=field, value=value, problem=problem, way=way)
