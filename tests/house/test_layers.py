"""Imports go downwards only. A module that no row of the table covers fails, so that every file has a room."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from pypto.compile import BEHIND_IR
from pypto.graph.plan.plan import VIEWS
from tests.house.measure import ROOT, Import, imports, module_name, python_files, relative

BASE = ("errors", "loc", "blocking", "options", "_platform", "markup")
TABLES = (*BASE, "ir", "ops")
BELOW_COMPILE = (*TABLES, "language", "frontend", "interp", "passes", "backends", "runtime")
BELOW_TOOLS = (*BELOW_COMPILE, "compile", "opening", "arguments", "process", "devices", "torch.graph", "jit", "debug")
TOOLS = ("tuning", "testing", "profiler", "tools")

# The folders of the Ascend backend, each with those that it may import; its other modules may import all of them.
ASCEND: dict[str, tuple[str, ...]] = {
    "target": (),
    "blockir": ("target",),
    "block": ("target", "blockir"),
    "tile": ("target",),
    "rules": ("target", "blockir"),
    "vector": ("target", "blockir", "block", "tile", "rules"),
    "cube": ("target", "blockir", "block", "tile", "rules", "vector"),
    "emit": ("target", "blockir", "block"),
    "timing": ("target", "blockir", "block"),
    "toolchain": ("target",),
}
BELOW_ASCEND = (*TABLES, "passes", "backends.base", "backends.findings", "backends.ascend.techniques")

# Room -> the rooms that it may import besides itself; a folder of rooms ("backends") stands for all of them.
# The room of a module is the longest row that begins its name, and "" is the package itself, pypto/__init__.py.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "loc": (),
    "errors": ("loc",),
    "blocking": ("errors", "loc"),
    "options": ("errors", "blocking"),
    "_platform": (),
    "markup": (),
    "ir": BASE,
    "ops": (*BASE, "ir"),
    "language": TABLES,
    "frontend": TABLES,
    "interp": TABLES,
    "passes": TABLES,
    "backends": (),
    "backends.sites": BASE,
    "backends.findings": (*TABLES, "passes"),
    "backends.base": (*TABLES, "passes", "backends.findings", "backends.sites"),
    "backends.plugin": (*BASE, "passes"),
    "backends.registry": (*BASE, "backends.plugin"),
    "backends.llvm": TABLES,
    "backends.cpu": (*TABLES, "passes", "backends.base", "backends.findings", "backends.llvm", "backends.sites"),
    "backends.cpu.plugin": (*BASE, "passes", "backends.cpu", "backends.plugin", "runtime"),
    "backends.ascend": BELOW_ASCEND,
    **{
        f"backends.ascend.{folder}": (*BELOW_ASCEND, *(f"backends.ascend.{below}" for below in others))
        for folder, others in ASCEND.items()
    },
    "backends.ascend.techniques": (*TABLES, "passes"),
    "backends.ascend.plugin": (*BASE, "passes", "backends.ascend", "backends.plugin", "runtime"),
    "runtime": (*TABLES, "backends.base"),
    "opening": BELOW_COMPILE,
    "compile": (*BELOW_COMPILE, "opening"),
    **dict.fromkeys(("process", "devices"), (*BELOW_COMPILE, "compile")),
    "arguments": BELOW_COMPILE,
    "debug": (*BELOW_COMPILE, "compile", "arguments"),
    "torch.graph": (*BELOW_COMPILE, "compile", "arguments"),
    "torch.operators": (*BELOW_COMPILE, "compile", "arguments", "torch.graph"),
    "jit": (*BELOW_COMPILE, "compile", "arguments", "debug", "torch.graph"),
    "aot": (*TABLES, "runtime"),
    "graph": (*BELOW_TOOLS, "tuning"),
    "graph.views": (*BELOW_TOOLS, "graph", "profiler"),
    "arrays": (*BELOW_TOOLS, "graph"),
    **dict.fromkeys(TOOLS, BELOW_TOOLS),
    "gradients": (*BELOW_TOOLS, "graph"),
    "tools": (*BELOW_TOOLS, "gradients"),
    "library": (*BELOW_TOOLS, *TOOLS, "torch.operators", ""),
    "": (*BELOW_TOOLS, *TOOLS, "gradients", "graph", "notebook"),
    "quant": (*BELOW_TOOLS, *TOOLS, "arrays", "library", ""),
    "notebook": (*BELOW_TOOLS, *TOOLS, ""),
    "compat": (*BELOW_TOOLS, *TOOLS, "library", ""),
    "routing": (*BELOW_TOOLS, *TOOLS, "library", ""),
    "torch": (*BELOW_TOOLS, *TOOLS, "gradients", "graph", "arrays", "compat", "library", "routing", ""),
    "cli": (*BELOW_TOOLS, *TOOLS, "compat", "library", "quant", ""),
    "__main__": ("cli",),
}

# The stages of the graph compiler, and the modules that users call, lowest first: each may import those before it.
# An import inside of a function, or for types alone, counts as any other.
GRAPH = (
    "generated", "ir", "rewrite", "loops", "exchange", "capture", "tracing", "schedule", "codegen", "plan", "pipeline",
    "tune", "verification", "views", "fused", "fuse", "lazy", "vmap", "cond", "step_loops", "importing", "",
)  # fmt: skip

ONLY_IN = {"llvmlite": "backends.cpu"}
LATER = ("llvmlite", "diskcache", "rich", "typer", "torch", "jax", "matplotlib", "importlib.metadata")

FILES = python_files("pypto")
MODULES = frozenset(module_name(path) for path in FILES)


@cache
def room(module: str) -> str:
    """The longest row that covers a module; a plain `pypto` is the room "", every other module needs a row."""
    name = module.removeprefix("pypto").removeprefix(".")
    rows = [row for row in MAY_IMPORT if name == row or (row and name.startswith(f"{row}."))]
    if not rows:
        pytest.fail(f"{module} has no room: add a row to MAY_IMPORT in tests/house/test_layers.py")
    return max(rows, key=len)


def allowed(source: str, target: str) -> bool:
    """Whether one room may import another."""
    return any(target == row or (row and target.startswith(f"{row}.")) for row in (source, *MAY_IMPORT[source]))


def of(library: str, path: Path) -> list[Import]:
    """What a file imports of one library."""
    return [found for found in imports(path, MODULES) if found.module.split(".")[0] == library]


def test_imports_go_downwards() -> None:
    wrong = []
    for path in FILES:
        source = room(module_name(path))
        bad = [found for found in of("pypto", path) if not allowed(source, room(found.module))]
        wrong += [f"{relative(path)}:{x.line}: `{source}` may not import {x.module}" for x in bad]
    assert not wrong, "\n".join(wrong)


def stage(module: str) -> int:
    """The place of a module of the graph compiler in the order of its stages; -1 of other modules."""
    if not f"{module}.".startswith("pypto.graph."):
        return -1
    return GRAPH.index(module.removeprefix("pypto.graph").removeprefix(".").split(".")[0])


def test_stages_of_the_graph_import_earlier_ones() -> None:
    stages = {path: stage(module_name(path)) for path in FILES}
    assert max(stages.values()) == len(GRAPH) - 1
    wrong = []
    for path in (path for path in FILES if stages[path] >= 0):
        bad = [found for found in of("pypto", path) if stage(found.module) > stages[path]]
        wrong += [f"{relative(path)}:{x.line}: `{GRAPH[stages[path]]}` may not import {x.module}" for x in bad]
    assert not wrong, "\n".join(wrong)


def test_stages_in_both_directions() -> None:
    assert stage("pypto.graph.ir.node") < stage("pypto.graph.tracing.tensor") < stage("pypto.graph.views.page")
    assert stage("pypto.graph.views.page") < stage("pypto.graph.fused") < stage("pypto.graph")
    assert stage("pypto.graphs") == stage("pypto.jit") == -1


def test_views_of_a_plan_are_the_only_names_of_later_stages() -> None:
    named = re.compile(r"pypto\.graph[.\w]*:\w+")
    texts = {path: named.findall(path.read_text(encoding="utf-8")) for path in FILES if "graph" in path.parts}
    found = {module_name(path): names for path, names in texts.items() if names}
    assert found == {"pypto.graph.plan.plan": [*VIEWS.values()]}
    assert all(callable(pkgutil.resolve_name(name)) for name in VIEWS.values())


@pytest.mark.parametrize("name", ["backends.cpu", "backends.ascend", "passes"])
def test_sources_that_decide_about_code_are_in_its_key(name: str) -> None:
    rooms = {row.split(".")[0] for row in (name, *MAY_IMPORT[name])}
    assert rooms - {*BASE, "backends"} <= {*BEHIND_IR}


@pytest.mark.parametrize(("library", "home"), ONLY_IN.items())
def test_library_stays_in_its_room(library: str, home: str) -> None:
    users = {module_name(path) for path in FILES if of(library, path)}
    assert {room(user) for user in users} <= {home}, users


def test_third_party_imports_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    optional = (
        line
        for extra in ("torch", "jax", "viz", "notebook", "helion", "quant", "monitor", "transformers")
        for line in extras[extra]
    )
    lines = [*project["dependencies"], *optional]
    declared = {line.split(">")[0].split("=")[0].split("~")[0] for line in lines}
    used = {found.module.split(".")[0] for path in FILES for found in imports(path, MODULES)}
    used = {name.replace("IPython", "ipython").replace("prometheus_c", "prometheus-c") for name in used}
    assert used - set(sys.stdlib_module_names) - {"pypto"} <= declared


@pytest.mark.torch
def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, pypto; print(*[name for name in {LATER!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    ("source", "target", "verdict"),
    [
        ("pypto.ir.core", "pypto.loc", True),
        ("pypto.ir.core", "pypto.ops.table", False),
        ("pypto.frontend.loops", "pypto.language.standard", False),
        ("pypto.backends.cpu.codegen.function", "pypto.backends.base", True),
        ("pypto.backends.cpu.codegen.function", "pypto.backends.ascend.vector.lower", False),
        ("pypto.runtime.launch", "pypto.backends.cpu.runtime.engine", False),
        ("pypto.compile", "pypto.backends.cpu.codegen.function", True),
        ("pypto.backends.ascend.cube.lower", "pypto.backends.ascend.tile.fractals", True),
        ("pypto.backends.ascend.tile.fractals", "pypto.backends.ascend.cube.lower", False),
        ("pypto.ops.table", "pypto", False),
    ],
)
def test_table_says(source: str, target: str, verdict: bool) -> None:
    assert allowed(room(source), room(target)) is verdict


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import pypto.ir.core as core", ["pypto.ir.core"]),
        ("from pypto.ir import core, types", ["pypto.ir.core", "pypto.ir.types"]),
        ("from .core import Op", ["pypto.ir.core"]),
        ("def f():\n    from pypto import compile", ["pypto.compile"]),
        ("importlib.import_module('pypto.cli')", ["pypto.cli"]),
    ],
)
def test_walker_finds(code: str, names: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.house.measure.ROOT", tmp_path)
    path = tmp_path / "pypto" / "ir" / "file.py"
    path.parent.mkdir(parents=True)
    path.write_text(code, encoding="utf-8")
    known = frozenset({"pypto.ir.core", "pypto.ir.types", "pypto.compile", "pypto.cli"})
    assert [found.module for found in imports(path, known)] == names
