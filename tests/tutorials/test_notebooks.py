"""The tutorials as notebooks: the same cells, executed by a kernel of Jupyter, and in an environment of their own."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from benchmarks.tutorials import FOLDER
from docs.notebooks import convert
from pypto.cli.notebooks import notebook, plain
from tests.cli.commands import answer, called
from tests.house.measure import ROOT
from tests.house.test_wheel import CLEAN, python_of
from tests.patience import limit

PATHS = sorted(FOLDER.glob("[0-2]*.py"))
WITH_TORCH = ("14", "20", "21")
RUN = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.torch] if path.stem[:2] in WITH_TORCH else [])
    for path in PATHS
    if path.stem[:2] != "24"  # which takes a minute, and has a test of its own
]
HAS_JUPYTER = all(importlib.util.find_spec(name) for name in ("ipykernel", "nbclient", "nbconvert"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_script_becomes_the_notebook_that_jupytext_makes_of_it(path: Path) -> None:
    made: Any = nbformat.reads(notebook(path.read_text(encoding="utf-8")), as_version=4)
    nbformat.validate(made)
    expected = jupytext.read(path).cells
    assert [c.cell_type for c in made.cells] == [c.cell_type for c in expected]
    for cell, script in zip(made.cells, expected, strict=True):
        assert cell.source == (plain(script.source) if cell.cell_type == "code" else script.source)
        assert "noqa" not in cell.source


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_cells_do_what_the_script_does(path: Path) -> None:
    """Without its guards, the script is the cells one after the other."""
    cells = [c.source for c in jupytext.read(path).cells if c.cell_type == "code"]
    for source in cells:
        wanted = [node for statement in ast.parse(source).body for node in unguarded(statement)]
        assert ast.dump(ast.parse(plain(source))) == ast.dump(ast.Module(wanted, []))


def unguarded(node: ast.stmt) -> list[ast.stmt]:
    """A statement as it is where `__name__` is "__main__"."""
    if not isinstance(node, ast.If) or "__name__" not in ast.unparse(node.test):
        return [node]
    if not isinstance(node.test, ast.BoolOp):
        return node.body
    rest = [inner for other in node.orelse for inner in unguarded(other)]
    return [ast.If(node.test.values[1], node.body, rest)]


def test_tutorials_are_copied_as_notebooks_with_what_they_import(tmp_path: Path) -> None:
    said = answer("tutorials", "copy", tmp_path, "--as", "ipynb")
    assert {"01_vector_add.ipynb", "13_finding_a_bug.ipynb", "clock.py"} <= set(said["copied"])
    assert not list(tmp_path.glob("[0-2]*.py"))
    assert answer("tutorials", "copy", tmp_path, "--as", "both")["kept"] == len(said["copied"])
    assert (tmp_path / "01_vector_add.py").read_bytes() == (FOLDER / "01_vector_add.py").read_bytes()
    assert json.loads((tmp_path / "01_vector_add.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
    refused = called("tutorials", "copy", tmp_path, "--as", "pdf")
    assert refused.exit_code == 2
    assert "is none of py, ipynb, both" in refused.output


@pytest.mark.slow
@pytest.mark.skipif(not HAS_JUPYTER, reason="needs ipykernel, nbclient and nbconvert")
@pytest.mark.parametrize("path", RUN)
def test_a_tutorial_runs_as_a_notebook_and_becomes_a_page(path: Path, tmp_path: Path) -> None:
    if path.stem[:2] in WITH_TORCH:
        pytest.importorskip("torch")
    if path.stem.startswith("06") and not importlib.util.find_spec("safetensors"):
        pytest.skip("needs the weights of the sentence encoder")
    if path.stem.startswith("07") and not shutil.which("g++"):
        pytest.skip("the simulated device needs a C++ compiler")
    ipynb, page = convert(path, tmp_path)
    code = [cell for cell in nbformat.read(ipynb, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert any(cell.outputs for cell in code)
    text = page.read_text(encoding="utf-8")
    title = re.search(r"^# # (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert title is not None
    assert title[1] in text


@pytest.mark.first
@pytest.mark.slow
def test_notebooks_in_an_environment_of_their_own(tmp_path: Path) -> None:
    """As a user does it: install with the extra, copy the tutorials, execute some and make pages of them."""
    python = python_of(tmp_path / "env", with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{ROOT}[notebook]"]
    done = subprocess.run(install, env=CLEAN, capture_output=True, text=True, check=False, timeout=limit(900))
    if done.returncode:
        pytest.skip(f"nothing can be installed here: {done.stderr.strip().splitlines()[-1]}")
    env = CLEAN | {"PYPTO_CACHE_DIR": str(tmp_path / "cache")}

    def run(*command: str | Path) -> str:
        words = [str(word) for word in command]
        said = subprocess.run(
            words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=limit(600)
        )
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout + said.stderr

    run(python, "-m", "pypto", "tutorials", "copy", "mine", "--as", "ipynb")
    told = {
        "02_fused_softmax": "largest difference",
        "11_autotuning": "matmul: equal to numpy",
        "12_cache_and_specialisation": "it is in the cache",
        "13_finding_a_bug": "compiled as interpreted",
    }
    run(python, "-m", "nbconvert", "--execute", "--to", "html", *(f"mine/{name}.ipynb" for name in told))
    for name, words in told.items():
        text = (tmp_path / "mine" / f"{name}.html").read_text(encoding="utf-8")
        assert text.count(words) > (FOLDER / f"{name}.py").read_text(encoding="utf-8").count(words)
    assert sys.prefix not in run(python, "-c", "import pypto; print(pypto.__file__)")
