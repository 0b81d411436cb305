"""The house by its figures: no file over 400 lines, no function over 60, and a core that stays small."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest

from tests.house.measure import FunctionSize, functions, python_files, relative, token_lines

FILE_LINES = 400
FOLDER_FILES = 25
FUNCTION_LINES = 60
MEDIAN_BODY = 6
NINE_OF_TEN_BODY = 25
CORE_TOKEN_LINES = 10_553  # with what is named cells, techniques and texts below it would be some 13,000
CELLS_TOKEN_LINES = 1830
TECHNIQUES_TOKEN_LINES = 3285

# Token lines of each room. Walls fall; they rise for a new capability only.
SMALL_ROOM_TOKEN_LINES = 350
ROOM_TOKEN_LINES = {
    "backends": 26_952,
    "graph": 18_150,
    "library": 8105,
    "passes": 5200,
    "ops": 5178,
    "quant": 4219,
    "torch": 4340,
    "frontend": 2772,
    "runtime": 2575,
    "errors": 2061,
    "tools": 1745,
    "compat": 2553,  # with hooks, what each knob means, and libraries of kernels for packages of torch
    "cli": 1602,
    "tuning": 1646,
    "language": 1390,
    "debug": 1080,
    "gradients": 1030,
    "profiler": 912,
    "routing": 710,
    "arrays": 1278,
    "jit": 707,
    "ir": 676,
}

# What is over a wall, with the reason why it stays whole. A row that is no longer needed fails.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}

# The core is the machinery from a function's source to a launched kernel, with one backend. Beside it stand what only
# grows with the language (rows of the op table and of the algebra, functions written in the language, the words of
# messages, pass lists), what tests accesses in checked mode and in no other, what keeps files (the disk cache), what a
# launch out of it takes in place of the front end and LLVM, a second, faster door beside Python's (the native
# launcher), what guards the installation, what users measure and tune with, bridges to other systems, further backends,
# and texts of the IRs that no part of that way reads or writes. Two more parts stand beside it, each with a wall of its
# own. Techniques make code faster that is right without them. Cells are what one op or family of ops needs alone, where
# that is more than a rule in its row: a core without them compiles every kernel that does not use the op. test_cells.py
# holds cells and texts to this.
ROWS = (
    *("arith", "atomic", "casts", "control", "matmul", "memory", "reduce", "rules", "select", "shape"),
    *(f"math/{path.stem}" for path in python_files("pypto/ops/math")),
    "mathematics",
)
WORDS = tuple(path.stem for path in python_files("pypto/errors") if path.stem not in ("__init__", "base"))
NAMES = (
    "codegen/dispatch",
    "codegen/interleaved",
    "codegen/load_hoisting",
    "codegen/nan_speculation",
    "codegen/nontemporal",
    "codegen/outlining",
    "codegen/peeling",
    "codegen/persistent_loops",
    "codegen/pipelined_reduction",
    "codegen/prefetch",
    "codegen/register_transpose",
    "codegen/split_stores",
    "codegen/trip_count",
    "gemm/amx",
    "gemm/bf16_split",
    "gemm/column_major_a",
    "gemm/conv_window",
    "gemm/epilogue",
    "gemm/panel_reuse",
    "gemm/skinny",
    "peepholes/bf16_rounding",
    "peepholes/division",
    "peepholes/exponent",
    "loopir/array_contraction",
    "loopir/interchange",
)
PASSES = (
    "coarsen_2d",
    "coarsening",
    "analysis/dot_facts",
    "k_blocking",
    "normalize_loops",
    "program_order",
    "swap_operands",
    "target_facts",
    "transpose_attention",
    "unswitch_modulo",
)
TECHNIQUES = (
    *(f"pypto/backends/cpu/{name}.py" for name in NAMES),
    *(f"pypto/passes/{name}.py" for name in PASSES),
)
DOT = tuple(
    f"gemm/{name}"
    for name in (
        "blocking",
        "emitted_operands",
        "ir",
        "lowering",
        "macro_kernel",
        "micro_kernel",
        "operands",
        "packing",
        "panel_packing",
    )
)
CELLS = (
    *(f"pypto/backends/cpu/{name}.py" for name in (*DOT, "library/atomics", "library/histogram", "library/sort")),
    "pypto/frontend/elements.py",
)
CHECKS = (
    *(f"pypto/backends/cpu/instrument/{name}.py" for name in ("access_ranges", "bounds", "hooks")),
    *("pypto/passes/guards.py", "pypto/runtime/owners.py"),
)
TEXTS = (
    "pypto/frontend/unparse",
    "pypto/ir/parser.py",
    "pypto/runtime/launch_text.py",
    *(f"pypto/backends/cpu/loopir/{name}.py" for name in ("parser", "printer", "scanner")),
)
ADJOINTS = ("pypto/ops/adjoint", "pypto/passes/adjoint/", "pypto/gradients/")
BESIDE_THE_CORE = (
    *ADJOINTS,
    *TECHNIQUES,
    *CELLS,
    *CHECKS,
    *TEXTS,
    *(f"pypto/ops/{name}.py" for name in ROWS),
    "pypto/passes/rules/algebra.py",
    *(f"pypto/errors/{name}.py" for name in WORDS),
    *(
        "pypto/language/",
        "pypto/runtime/disk_cache/",
        "pypto/_platform.py",
        "pypto/compat/",
        "pypto/ir/type_queries.py",
    ),
    *("pypto/cli/", "pypto/__main__.py", "pypto/tuning/", "pypto/testing/", "pypto/profiler/", "pypto/debug/"),
    *("pypto/notebook/", "pypto/markup/", "pypto/graph/", "pypto/arrays/", "pypto/library/", "pypto/quant/"),
    "pypto/routing/",
    *("pypto/backends/findings.py", "pypto/backends/cpu/explain/"),
    *("pypto/backends/sites.py", "pypto/backends/cpu/instrument/timing.py"),
    *("pypto/backends/cpu/runtime/launcher/", "pypto/jit/direct.py", "pypto/jit/generated.py"),
    *("pypto/backends/ascend/", "pypto/opening.py", "pypto/devices.py", "pypto/runtime/device", "pypto/tools/"),
    *("pypto/runtime/arena.py", "pypto/runtime/launches.py", "pypto/ops/target.py"),
    *("pypto/runtime/copies.py", "pypto/runtime/slow.py", "pypto/runtime/tensors.py", "pypto/torch/"),
    "pypto/runtime/versions.py",
    *(
        "pypto/jit/manifest.py",
        "pypto/jit/records.py",
        "pypto/backends/cpu/host.py",
        "pypto/backends/cpu/runtime/elf.py",
    ),
    *(
        "pypto/backends/cpu/instrument/printing.py",
        "pypto/backends/cpu/runtime/crash.py",
        "pypto/backends/cpu/loopir/verify.py",
    ),
    *("pypto/backends/cpu/pipeline.py", "pypto/backends/cpu/techniques.py"),
    *("pypto/passes/preparing.py", "pypto/passes/optimizing.py"),
    *("pypto/frontend/advice.py", "pypto/frontend/weak.py", "pypto/passes/analysis/waiting.py"),
    *("pypto/aot.py", "pypto/backends/cpu/runtime/aot.py", "pypto/runtime/pickling.py"),
    *("pypto/runtime/acl.py", "pypto/runtime/dlpack.py", "pypto/runtime/simulator.py", "pypto/runtime/staging.py"),
)

FILES = python_files("pypto", "benchmarks", "tutorials", "tests")
CORE = [path for path in python_files("pypto") if not relative(path).startswith(BESIDE_THE_CORE)]


def core_bodies() -> list[int]:
    return sorted(size.body for path in CORE for size in functions(path))


def test_files_stay_under_the_wall() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lengths.items() if count > FILE_LINES}.keys() == LONG_FILES.keys()


def test_folders_stay_small() -> None:
    sizes = Counter(relative(path.parent) for path in FILES if relative(path).startswith("pypto/"))
    assert {folder: count for folder, count in sizes.items() if count > FOLDER_FILES} == {}


def test_rooms_stay_small() -> None:
    """A wall for each room, with which it can be worked; a room that has shrunk by far gets a lower one."""
    sizes: Counter[str] = Counter()
    for path in python_files("pypto"):
        sizes[relative(path).split("/")[1].removesuffix(".py")] += token_lines(path.read_text(encoding="utf-8"))
    over = {room: size for room, size in sizes.items() if size > ROOM_TOKEN_LINES.get(room, SMALL_ROOM_TOKEN_LINES)}
    assert over == {}
    assert {room for room, wall in ROOM_TOKEN_LINES.items() if sizes[room] < 0.9 * wall} == set(), "lower these walls"


def test_functions_stay_under_the_wall() -> None:
    long: list[FunctionSize] = [size for path in FILES for size in functions(path) if size.lines > FUNCTION_LINES]
    assert {f"{size.file}:{size.name}" for size in long} == LONG_FUNCTIONS.keys(), "\n".join(map(str, long))


def test_median_function() -> None:
    assert statistics.median(core_bodies()) <= MEDIAN_BODY


def test_nine_functions_of_ten() -> None:
    bodies = core_bodies()
    assert bodies[int(len(bodies) * 0.9)] <= NINE_OF_TEN_BODY


def lines_of(paths: list[Path]) -> int:
    return sum(token_lines(path.read_text(encoding="utf-8")) for path in paths)


def test_core_stays_small() -> None:
    assert lines_of(CORE) < CORE_TOKEN_LINES


@pytest.mark.parametrize(
    ("names", "wall"), [(TECHNIQUES, TECHNIQUES_TOKEN_LINES), (CELLS, CELLS_TOKEN_LINES)], ids=["techniques", "cells"]
)
def test_what_stands_beside_the_core_stays_small(names: tuple[str, ...], wall: int) -> None:
    found = [path for path in python_files("pypto") if relative(path) in names]
    assert len(found) == len(names), "a file has gone"
    assert lines_of(found) < wall


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""Doc."""\n\nx = 1  # why\n', 1),
        ('def f():\n    """One.\n\n    Two.\n    """\n    return (\n        1\n    )\n', 4),
        ('x = """a\n\nb"""\n', 3),
        ("# only a comment\n", 0),
    ],
)
def test_token_lines_counts_what_does_something(text: str, lines: int) -> None:
    assert token_lines(text) == lines
