"""`%%pto` in a shell of IPython: cells of kernels, what is shown of a launch, and errors by cell and line."""

from __future__ import annotations

import atexit
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pypto.notebook import magic
from pypto.notebook.magic import OPTIONS
from tests.house.measure import ROOT

interactive: Any = pytest.importorskip("IPython.core.interactiveshell")
config: Any = pytest.importorskip("traitlets.config")

ADD = """
def add(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]

add[(2,)](x, y, out, BLOCK=8)
"""


BUMP = """
def bump(x):
    t = x[:]
    x[:] = t + 1
bump[1](x)
"""


class Shell:
    """A shell, and what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        settings = config.Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
        self.shell = interactive.InteractiveShell.instance(config=settings)
        self.capsys = capsys

    def __call__(self, text: str) -> str:
        """Run a cell; gives what it printed, its value, and its error."""
        result = self.shell.run_cell(text, store_history=True)
        self.error = result.error_before_exec or result.error_in_exec
        said = self.capsys.readouterr()
        return str(said.out + said.err)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    hooks = sys.displayhook, sys.excepthook
    made = Shell(capsys)
    made("%load_ext pypto")
    made("import numpy as np; x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32); y = x.copy()")
    yield made
    atexit.unregister(made.shell.atexit_operations)  # as it is, a shell without a history fails in it
    interactive.InteractiveShell.clear_instance()
    sys.displayhook, sys.excepthook = hooks


def of(shell: Shell, name: str) -> Any:
    return shell.shell.user_ns[name]


def test_functions_of_a_cell_become_kernels_and_its_launch_is_made(shell: Shell) -> None:
    assert shell("%%pto\n" + ADD) == ""
    assert shell.error is None
    np.testing.assert_array_equal(of(shell, "out"), 2 * of(shell, "x"))
    assert of(shell, "add").arg_names == ["x", "y", "out", "BLOCK"]


def test_trial_36_a_magic_cell_that_is_run_again_is_the_new_code(shell: Shell) -> None:
    for factor in (3, 4, 3):
        shell(f"%%pto\ndef times(x, out):\n    out[:] = x[:] * {factor}\ntimes[1](x, out)")
        np.testing.assert_array_equal(of(shell, "out"), factor * of(shell, "x"))


def test_a_cell_is_python_and_decorated_functions_stay_as_they_are(shell: Shell) -> None:
    said = shell("%%pto\nimport functools\n@functools.cache\ndef plain(n):\n    return n + 1\nplain(6)")
    assert said == "Out[3]: 7\n"
    assert shell("%%pto\nnumbers = [lambda n: n]\nnumbers[0](5)").endswith(": 5\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--verify", "2 programs, compiled as interpreted"),
        ("--time", r"launches: least .* µs, median .* µs, 90 % .* µs; arguments of .* MB"),
        ("--explain", r"Cell In\[3\]:5"),
        ("--level loop-ir", "store"),
        ("--inspect", "levels: tile-ir"),
        ("--target ascend910b2", "add on ascend910b2"),
        ("--target ascend910b2 --level ascendc", "DataCopyPad"),
    ],
)
def test_what_is_shown_of_a_launch(shell: Shell, options: str, words: str) -> None:
    said = shell(f"%%pto {options}\n{ADD}")
    assert shell.error is None, said
    assert re.search(words, said)
    done = 0 if "target" in options else 2
    np.testing.assert_array_equal(of(shell, "out"), done * of(shell, "x"))
    again = shell(f"%pto {options} add[(2,)](x, y, out, BLOCK=8)")
    assert shell.error is None, again


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the magic shows, one after the other."""
    found: list[Any] = []
    monkeypatch.setattr(magic, "display", found.append)
    return found


@pytest.mark.parametrize(
    "options", ["--inspect", "--verify --time --inspect", "--verify --inspect", "--time --inspect"]
)
def test_the_page_of_a_launch_has_the_time_of_every_line(shell: Shell, options: str, displayed: list[Any]) -> None:
    shell(f"%%pto {options}\n{BUMP}")
    page = displayed[-1]
    assert any(facts.share for facts in page.facts.values()), page.facts
    assert "No times yet" not in page._repr_html_()
    np.testing.assert_array_equal(of(shell, "x"), np.arange(16) + 1)
    assert ("compiled as interpreted" in str(displayed[0])) == ("--verify" in options)
    assert any("launches: least" in str(x) for x in displayed) == ("--time" in options)


def test_the_page_of_a_tuned_launch_has_times_too(shell: Shell, displayed: list[Any]) -> None:
    shell(f"%%pto --verify --inspect\n{TUNED}")
    assert "No times yet" not in displayed[-1]._repr_html_()


@pytest.mark.parametrize("options", ["--time", "--inspect"])
def test_inputs_may_be_read_only(shell: Shell, options: str) -> None:
    shell("y.flags.writeable = False")
    said = shell(f"%%pto {options}\n{ADD}")
    assert shell.error is None, said
    np.testing.assert_array_equal(of(shell, "out"), 2 * of(shell, "x"))


def test_timing_leaves_arrays_as_after_one_launch(shell: Shell) -> None:
    shell("%%pto --time\ndef bump(x):\n    x[:] += 1\nbump[1](x)")
    np.testing.assert_array_equal(of(shell, "x"), np.arange(16) + 1)


def test_an_error_is_its_text_with_the_line_of_the_cell(shell: Shell) -> None:
    said = shell("%%pto --time\ndef bad(x, out):\n    out[:] = x[:] + missing\n\nbad[1](x, out)")
    assert "UndefinedName: [E203] the name `missing` is not defined" in re.sub(r"\x1b\[\d*m", "", said)
    assert "--> Cell In[3]:3:21, in bad" in said
    assert "launched from Cell In[3]:5\n" in said
    assert "pypto" not in said
    assert "Traceback" not in said


def test_an_error_in_any_cell_tells_from_where_it_was_launched(shell: Shell) -> None:
    shell("import pypto as pto\n@pto.jit\ndef bad(x):\n    x[:] = missing")
    said = shell("def call():\n    bad[1](x)\ncall()")
    assert "--> Cell In[3]:4:12, in bad" in said
    assert said.index("launched from Cell In[4]:2, in call") < said.index("launched from Cell In[4]:3")
    assert "run_code" not in said


@pytest.mark.parametrize("option", ["--interpret", "--checked"])
def test_every_access_is_checked(shell: Shell, option: str) -> None:
    said = shell(f"%%pto {option}\ndef over(x):\n    pto.store(x + 14 + pto.arange(0, 4), 1.0)\nover[1](x)")
    assert "[E401] store out of bounds: x[16]" in said


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%pto --tme\n1", "there is no option --tme; did you mean time?"),
        ("%%pto --time\n1 + 1", "--time needs a launch: end the cell with one"),
        ("%%pto add\n1", "'add' is no option"),
        ("%%pto --target\n1", "--target needs a name"),
        ("%%pto --level llvm\n" + ADD, "there is no level llvm"),
    ],
)
def test_a_mistake_in_the_magic_says_what_to_write(shell: Shell, cell: str, words: str) -> None:
    said = shell(cell)
    assert words in said
    assert "Traceback" not in said


def test_help_and_unloading(shell: Shell) -> None:
    assert "--verify" in shell("%pto --help")
    assert "A cell of kernels" in of(shell, "get_ipython")().find_cell_magic("pto").__doc__
    shell("%unload_ext pypto")
    assert shell.shell.find_cell_magic("pto") is None


def test_the_cells_of_the_guide_run(shell: Shell) -> None:
    text = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    cells = re.findall(r"^```text\n(%.*?)^```$", text, re.MULTILINE | re.DOTALL)
    said = [shell(cell) for cell in cells]
    assert len(cells) == 3
    assert shell.error is None
    assert "compiled as interpreted" in said[1]
    assert "DataCopyPad" in said[2]
    options = set(re.findall(r"^\| `--(\w+)", text, re.MULTILINE))
    assert options == set(OPTIONS) - {"help"}


def test_importing_pypto_loads_nothing_of_notebooks() -> None:
    code = "import sys, pypto; print([n for n in sys.modules if 'notebook' in n or n.startswith('IPython')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


TUNED = """
@pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})], key=["x"], cache_results=False)
@pto.jit
def twice(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = 2 * x[i : i + BLOCK]

twice[lambda meta: (16 // meta["BLOCK"],)](x, out)
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--verify", "programs, compiled as interpreted"),
        ("--time", "launches: least"),
        ("--level loop-ir --explain", "twice, compiled for"),
        ("--target ascend910b2", "BLOCK=8"),
    ],
)
def test_kernels_that_are_tuned(shell: Shell, options: str, words: str) -> None:
    said = shell(f"%%pto {options}\n{TUNED}")
    assert shell.error is None, said
    assert words in said
    if "target" not in options:
        np.testing.assert_array_equal(of(shell, "out"), 2 * of(shell, "x"))
