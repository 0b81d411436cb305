"""The pass list of the CPU: from optimised Tile IR to Loop IR, and the techniques of code generation after it.

`lower` in `codegen.function` runs it: `before_coarsening` and `coarsen` once, `legalize` and `lower_to_loops` for each
version of the kernel that coarsening gives. Passes over products are loaded with the first kernel that has one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from pypto.backends.cpu.instrument.hooks import guarded
from pypto.backends.cpu.loopir.allocate import allocate_buffers
from pypto.backends.cpu.loopir.array_contraction import contract_arrays
from pypto.backends.cpu.loopir.build import build_items, place_buffers
from pypto.backends.cpu.loopir.fusion import fuse_loops
from pypto.backends.cpu.loopir.ir import Schedule
from pypto.backends.cpu.loopir.materialize import plan_materialization
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import TECHNIQUES, is_enabled
from pypto.backends.cpu.tile.legalize import (
    copy_reshaped_products,
    drop_disabled_terms,
    float8_as_bfloat16,
    widen_integer_dots,
    widen_narrow_scans,
)
from pypto.ir.core import Function
from pypto.passes.coarsen_2d import coarsen_strips
from pypto.passes.coarsening import coarsen_programs
from pypto.passes.manager import Pass, run
from pypto.passes.program_order import order_programs


def unswitch(function: Function, target: CpuTarget) -> Function:
    """Unswitching of loops whose index wraps around."""
    from pypto.passes.unswitch_modulo import unswitch_modulo

    return unswitch_modulo(function)


def normalize(function: Function, target: CpuTarget) -> Function:
    """Loops that move pointers, with an induction variable along K."""
    from pypto.passes.normalize_loops import normalize_pointer_loops

    return normalize_pointer_loops(function)


def accumulate(function: Function, target: CpuTarget) -> Function:
    """Sums with products as accumulators of the products."""
    from pypto.passes.products import accumulated

    return accumulated(function)


def transpose(function: Function, target: CpuTarget) -> Function:
    """Attention on transposed scores."""
    from pypto.passes.transpose_attention import transpose_attention

    return transpose_attention(function, target)


def swap(function: Function, target: CpuTarget) -> Function:
    """Products with swapped operands."""
    from pypto.passes.swap_operands import swap_operands

    return swap_operands(function, target)


def retile(function: Function, target: CpuTarget) -> Function:
    """Sums of products with the step KC."""
    from pypto.backends.cpu.gemm.blocking import choose_kc
    from pypto.passes.k_blocking import retile_reductions

    return retile_reductions(function, partial(choose_kc, target=target))


BEFORE_COARSENING: Final = (
    Pass("program_order", lambda function, target: order_programs(function), "first: all others know axis 0 as the"
        " fastest one; checks and prints name programs by the grid", unless=("checked", "prints")),
    Pass("drop_disabled_terms", drop_disabled_terms, "before all that asks how many terms stand for a float32", "dot"),
    Pass("unswitch_modulo", unswitch, "first: without gathers loops may be counted, and programs coarsened; a check or"
        " a timed statement is to stand in one version", "dot", ("checked", "profile"), optional=True),
    Pass("normalize_loops", normalize, "before coarsening and K blocking, which know loops over K alone; checks name"
        " the loop as it was written", "dot", ("checked",), optional=True),
)  # fmt: skip
# Each takes the versions of a kernel, and gives them.
COARSENING: Final = (
    Pass("coarsening", lambda versions, function, target: coarsen_programs(function, target), "before legalization,"
        " which sees the tiles as large as they become; checks and prints belong to single programs",
        unless=("checked", "prints"), optional=True),
    Pass("coarsen_2d", coarsen_strips, "after coarsening, where that leaves one version of a product for AMX",
        unless=("checked", "prints", "profile"), optional=True),
)  # fmt: skip
LEGALIZE: Final = (
    Pass("accumulate", accumulate, "before all that looks for loops which add up products", "dot"),
    Pass("float8_as_bfloat16", float8_as_bfloat16, "before all that asks how a product is packed", "dot"),
    Pass("transpose_attention", transpose, "before operands are swapped: it knows attention by its products as they"
        " were written", "dot", optional=True),
    Pass("swap_operands", swap, "before K blocking, which asks what of a product is read in place", "dot",
        optional=True),
    Pass("k_blocking", retile, "after all that changes which operands are packed: KC depends on it", "dot",
        optional=True),
    Pass("widen_integer_dots", widen_integer_dots, "after K blocking, which may make a product deep enough for packing",
        "dot"),
    Pass("copy_reshaped_products", copy_reshaped_products, "before materialization, where a reshape shows the memory of"
        " its operand; after all that changes which tiles are accumulated", "dot"),
    Pass("widen_narrow_scans", widen_narrow_scans, "anywhere before materialization, which counts bytes"),
    Pass("guard", lambda function, target: guarded(function), "last: what it guards is what runs; in checked mode"
        " alone"),
)  # fmt: skip
# The first takes a function, and each what the one before it gives: a plan, buffers, Loop IR.
BUILD: Final = (
    Pass("materialize", plan_materialization, "first: which values have memory; the rest is computed where it is read"),
    Pass("allocate", allocate_buffers, "after materialize: values whose lifetimes allow it share a buffer"),
    Pass("build", lambda storage, target: build_items(storage), "a nest for each statement, in program order"),
)
LOOPS: Final = (
    Pass("fusion", fuse_loops, "after build: neighbouring nests share the loops that they can", optional=True),
    Pass("array_contraction", lambda schedule, target: contract_arrays(schedule), "after fusion: what only one nest"
        " uses needs registers, or memory for one turn of the shared loops", optional=True),
)  # fmt: skip
PLACE: Final = (
    Pass("offsets", lambda schedule, target: place_buffers(schedule), "last: contraction leaves fewer buffers"),
)  # fmt: skip
PASSES: Final = (*BEFORE_COARSENING, *COARSENING, *LEGALIZE, *BUILD, *LOOPS, *PLACE, *TECHNIQUES)


def before_coarsening(function: Function, target: CpuTarget) -> Function:
    """The function before program coarsening."""
    result: Function = run(function, BEFORE_COARSENING, target)
    return result


def coarsen(function: Function, target: CpuTarget) -> list[Function]:
    """The versions of a kernel: itself, and perhaps a coarsened one before it."""
    versions: list[Function] = run([function], COARSENING, function, target, attrs=function.attrs)
    return versions


def legalize(function: Function, target: CpuTarget) -> Function:
    """The function in the forms from which Loop IR is built."""
    result: Function = run(function, LEGALIZE, target)
    return result


def lower_to_loops(function: Function, target: CpuTarget) -> Schedule:
    """Loop IR of a legal function."""
    schedule: Schedule = run(unplaced_loops(function, target), PLACE, target, attrs=function.attrs)
    return schedule


def unplaced_loops(function: Function, target: CpuTarget) -> Schedule:
    """Loop IR whose buffers have no offsets yet; it knows the readers and live ranges of values."""
    schedule: Schedule = run(function, (*BUILD, *LOOPS), target, attrs=function.attrs)
    return schedule


def enabled_target(function: Function, target: CpuTarget) -> CpuTarget:
    """The target without the instructions that the kernel switches off."""
    return target if is_enabled(function, "amx") else replace(target, has_amx=False)


def run_passes(function: Function, target: CpuTarget) -> None:
    """Run all passes on an optimised function, for their observers."""
    target = enabled_target(function, target)
    for version in coarsen(before_coarsening(function, target), target):
        lower_to_loops(legalize(version, target), target)
