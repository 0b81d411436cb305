"""What is counted as a cell is one: only a table of cells leads to it, and only kernels with its ops need it.

What is counted as a technique is one: without all of them every kernel is right.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from pypto.backends.cpu import cells
from pypto.ops.row import STRUCTURAL
from pypto.ops.table import TABLE
from tests.house.measure import ROOT, imports, module_name, python_files, relative
from tests.house.test_sizes import CELLS, CORE, NAMES, TEXTS

TABLES = {"pypto/backends/cpu/cells.py", "pypto/frontend/intrinsics.py"}
# What modules of techniques keep for the machinery: facts about operands, and what says that there is nothing to do.
HELPERS = {
    *("crosswise.Crossing.__init__", "crosswise.Crossing.leaves", "crosswise.steps", "crosswise.stored"),
    *("crosswise.transposed", "live.Live.__init__", "merging.Merged.is_one", "merging.choose"),
    *("operands.dot_dtype", "operands.is_joined", "operands.joined_bytes", "operands.origin"),
    *("operands.packs_transposed", "operands.panel_width", "operands.tile_words", "operands.words_of"),
    *("outline.statements", "outline.weight"),
    *("prefetch.begun", "prefetch.fetch", "prefetch.level", "prefetch.grown", "prefetch.slope", "prefetch.times"),
    *("rest.run", "stream.differs", "stream.loaded_bytes", "stream.reads"),  # `run` of nothing
    "streaming.StreamEmitter.__init__",
}
MODULES = frozenset(map(module_name, python_files("pypto")))


def modules(files: tuple[str, ...]) -> frozenset[str]:
    return frozenset(module_name(ROOT / name) for name in files)


def importers(files: tuple[str, ...]) -> set[str]:
    """The files of the core that import some of these."""
    return {relative(path) for path in CORE if modules(files) & {found.module for found in imports(path, MODULES)}}


@pytest.mark.parametrize("name", [*cells.CELLS, *cells.ONE_BY_ONE])
def test_cells_are_of_structural_ops(name: str) -> None:
    assert TABLE[name].cpu is STRUCTURAL


def test_machinery_reaches_cells_through_tables_only() -> None:
    assert importers(CELLS) == TABLES


def test_machinery_needs_no_texts() -> None:
    assert not importers(TEXTS)


def test_a_kernel_without_cells_loads_none() -> None:
    lowering = "import sys; from tests.backends_cpu.lowering import *; from tests.conformance.running import *"
    code = f"{lowering}; lowered(make_launch('softmax_native')); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {*result.stdout.split()}
    assert "pypto.backends.cpu.lower" in loaded and not modules(CELLS) & loaded


def test_all_else_compiles_without_cells() -> None:
    command = [sys.executable, "-m", "tests.house.without_cells", *sorted(modules(CELLS))]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    outcomes = Counter(line.partition(": ")[2] for line in result.stdout.splitlines())
    assert outcomes.keys() == {"compiled", "needs a cell"}, result.stdout


@pytest.mark.slow
def test_everything_is_right_without_techniques() -> None:
    command = [sys.executable, "-m", "tests.house.without_techniques", *NAMES]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *outcomes, called = result.stdout.splitlines()
    assert len(outcomes) > 60 and {line.partition(": ")[2] for line in outcomes} == {"right"}
    assert {*called.split()[1:]} <= HELPERS
