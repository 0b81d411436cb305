"""What is counted as a cell is one: only a table of cells leads to it, and only kernels with its ops need it.

What is counted as a technique is one: without all of them every kernel is right.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pypto.backends.cpu.library import registry
from pypto.ops.row import STRUCTURAL
from pypto.ops.table import TABLE
from tests.house.measure import ROOT, imports, module_name, python_files, relative
from tests.house.test_sizes import CELLS, CORE, TECHNIQUES, TEXTS

TABLES = {"pypto/backends/cpu/library/registry.py", "pypto/frontend/intrinsics.py"}
# What modules of techniques keep for the machinery: facts about operands, and what says that there is nothing to do.
HELPERS = {
    "codegen.dispatch.dispatch_coarsened",
    "codegen.load_hoisting.hoist_loads_above_stores",
    "codegen.nan_speculation.can_speculate",
    "codegen.nan_speculation.can_speculate_rows",
    "codegen.nontemporal.arrays_read",
    "codegen.nontemporal.loaded_bytes",
    "codegen.nontemporal.varies",
    "codegen.peeling.why_not_peeled",
    "codegen.persistent_loops.persistent_loop_context",
    "codegen.prefetch.evolution_over",
    "codegen.prefetch.loads_to_prefetch",
    "codegen.prefetch.prefetch_line",
    "codegen.prefetch.target_level",
    "codegen.register_transpose.TransposeTiling.__init__",
    "codegen.register_transpose.TransposeTiling.is_memory_operand",
    "codegen.register_transpose.TransposeTiling.memory_operands",
    "codegen.register_transpose.TransposeTiling.operand_tree",
    "codegen.register_transpose.TransposeTiling.transpose_axis",
    "codegen.register_transpose.row_chunks",
    "codegen.register_transpose.transpose_registers",
    "codegen.register_transpose.values_written",
    "codegen.split_stores.split_store",
    "codegen.trip_count.TripCounts.__init__",
    "codegen.trip_count.TripCounts.bound",
    "codegen.trip_count.TripCounts.record_readers",
    "gemm.epilogue.emit_epilogue",
    "gemm.skinny.SkinnyGemmEmitter.__init__",
    "gemm.skinny.is_skinny",
    "peepholes.bf16_rounding.can_round_registers",
    "peepholes.division.can_use_reciprocal",
    "peepholes.division.fits_float64",
    "peepholes.exponent.lanes",
    "peepholes.exponent.has_scalef_form",
    "analysis.dot_facts.dot_dtype",
    "analysis.dot_facts.is_packed",
    "analysis.dot_facts.packed_bytes",
    "gemm.skinny.skinny_blocking",
    "analysis.dot_facts.packing_factor",
    "analysis.dot_facts.packs_transposed",
    "analysis.dot_facts.split_terms",
    "passes.program_order.order_programs",
    "passes.program_order.program_order",
    "passes.target_facts.with_overrides",
}
MODULES = frozenset(map(module_name, python_files("pypto")))


def modules(files: tuple[str, ...]) -> frozenset[str]:
    return frozenset(module_name(ROOT / name) for name in files)


def importers(files: tuple[str, ...]) -> set[str]:
    """The files of the core that import some of these."""
    return {relative(path) for path in CORE if modules(files) & {found.module for found in imports(path, MODULES)}}


@pytest.mark.parametrize("name", [*registry.LIBRARY_OPS, *registry.SCALAR_LOOP_OPS])
def test_cells_are_of_structural_ops(name: str) -> None:
    assert TABLE[name].lane_rule is STRUCTURAL


def test_machinery_reaches_cells_through_tables_only() -> None:
    assert importers(CELLS) == TABLES


def test_machinery_needs_no_texts() -> None:
    assert not importers(TEXTS)


def test_a_kernel_without_cells_loads_none() -> None:
    lowering = "import sys; from tests.backends_cpu.lowering import *; from tests.conformance.running import *"
    code = f"{lowering}; lowered(make_launch('softmax_native')); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {*result.stdout.split()}
    assert "pypto.backends.cpu.codegen.function" in loaded and not modules(CELLS) & loaded


@pytest.mark.slow
def test_all_else_compiles_without_cells() -> None:
    command = [sys.executable, "-m", "tests.house.without_cells", *sorted(modules(CELLS))]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    outcomes = Counter(line.partition(": ")[2] for line in result.stdout.splitlines())
    assert outcomes.keys() == {"compiled", "needs a cell"}, result.stdout


@pytest.mark.slow
def test_everything_is_right_without_techniques() -> None:
    techniques = ["/".join(Path(name).with_suffix("").parts[-2:]) for name in TECHNIQUES]
    command = [sys.executable, "-m", "tests.house.without_techniques", *techniques]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *outcomes, called = result.stdout.splitlines()
    assert len(outcomes) > 60 and {line.partition(": ")[2] for line in outcomes} == {"right"}
    assert {*called.split()[1:]} <= HELPERS
