"""Launches out of the disk cache read no source; whatever a kernel depends on, a change of it is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.patience import limit

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.parametrize("path", ["native"], indirect=True)  # of this process, which launches nothing

KERNELS = """
import math
import numpy as np
import pypto as pto
import settings
import package.inner
from helpers import scaled

SCALE = 2
PAIR = (3, -0.0)

def offset(bias):
    @pto.jit
    def kernel(x, y, N: pto.constexpr):
        y[:] = scaled(x[:], SCALE) + bias * N + settings.SHIFT + max(PAIR[0], 1) + math.sqrt(4.0)
    return kernel

kernel = offset(10)

@pto.jit
def nested(x, y, N: pto.constexpr):
    y[:] = x[:] * package.inner.FACTOR * N

@pto.jit
def chosen(x, y, N: pto.constexpr):
    if package.inner.extra is None:
        y[:] = x[:] + N
    else:
        y[:] = x[:] - N

@pto.jit
def says(x, y, N: pto.constexpr):
    pto.static_print("N is", N)
    y[:] = x[:] * N
"""
HELPERS = """
import pypto as pto

WEIGHT = 1

@pto.jit
def scaled(v, by, more=0):
    return v * by * WEIGHT + more
"""
MAXIMUM = "@pto.jit\ndef max(a, b):\n    return a + 6"
OTHER_MODULE = "import types; kernels.settings = types.ModuleType('settings'); kernels.settings.SHIFT = 7"
FILES = {
    "kernels.py": KERNELS,
    "settings.py": "SHIFT = 100\n",
    "helpers.py": HELPERS,
    "package/__init__.py": "",
    "package/inner.py": "import json as extra\nFACTOR = 5\n",
}
EXPLAINED = """
import atexit

@atexit.register
def show():
    version, = kernels.kernel.specializations
    assert version.program.function.name == "kernel"
    assert "for" in str(kernels.kernel.inspect(x, y, 1)["loop-ir"])
"""
RUN = """
import sys
import numpy as np
import kernels
{before}
x = np.arange({size}, dtype=np.{dtype})
y = np.zeros_like(x)
kernels.{name}[(1,)](x, y, {constant})
print("launched", y[1], "pypto.frontend.build" in sys.modules)
"""
EACH = """
import json, os, sys, traceback
import numpy as np
import pypto as pto
for prepare, code in json.loads(sys.argv[1]):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            exec(prepare)
            exec(code)
            sys.stdout.flush()
            os._exit(0)
        finally:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def launch(before: str = "", name: str = "kernel", constant: str = "1", dtype: str = "float32", size: int = 64) -> str:
    """What a process runs that launches a kernel."""
    return RUN.format(before=before, name=name, constant=constant, dtype=dtype, size=size)


def run(folder: Path, code: str = "", **environment: str) -> tuple[float, bool]:
    """In a new process, the second element that a kernel writes, and whether its source was read."""
    return results(folder, [code or launch()], environment)[-1]


def run_each(folder: Path, *codes: str, prepare: Sequence[str] = ()) -> list[tuple[float, bool]]:
    """The same for some launches, each the first one of a fork of a new process that has loaded the package.

    To `prepare`, a fork runs code before it loads the kernels.
    """
    steps = [*zip(prepare or [""] * len(codes), codes, strict=True)]
    return results(folder, [EACH, json.dumps(steps)], {})


def results(folder: Path, code: Sequence[str], environment: Mapping[str, str]) -> list[tuple[float, bool]]:
    settings = {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))), "PYPTO_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-W", "error", "-c", *code]
    environ = {**os.environ, **settings, **environment}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=limit(120), check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("launched ")]
    return [(float(number), was_read == "True") for _, number, was_read in lines]


def test_a_second_process_reads_no_source_and_needs_no_llvm(folder: Path) -> None:
    assert run(folder) == (117, True)
    without = "import atexit, os; atexit.register(lambda: 'llvmlite.binding' in sys.modules and os._exit(3))"
    assert run(folder, launch(without)) == (117, False)


CHANGES = {
    "global": ("kernels.py", "SCALE = 2", "SCALE = 4", 119),
    "tuple": ("kernels.py", "PAIR = (3, -0.0)", "PAIR = (5, -0.0)", 119),
    "closure": ("kernels.py", "offset(10)", "offset(20)", 127),
    "kernel": ("kernels.py", "SCALE) +", "SCALE) -", 97),
    "builtin that is a global now": (
        "kernels.py",
        "SCALE = 2",
        f"SCALE = 2\n{MAXIMUM}",
        123,
    ),
    "module": ("settings.py", "100", "200", 217),
    "helper": ("helpers.py", "v * by", "v + by", 118),
    "global of a helper": ("helpers.py", "WEIGHT = 1", "WEIGHT = 3", 121),
    "default of a helper": ("helpers.py", "more=0", "more=1000", 1117),
}


def rewritten(folder: Path, file: str, text: str) -> str:
    """What writes a file, as code."""
    return f"open({str(folder / file)!r}, 'w').write({text!r})"


def test_a_change_is_noticed(folder: Path) -> None:
    prepare, restore = [""], ""
    for file, old, new, _ in CHANGES.values():
        assert old in FILES[file]
        prepare.append(f"{restore}; {rewritten(folder, file, FILES[file].replace(old, new))}".lstrip("; "))
        restore = rewritten(folder, file, FILES[file])
    (first, _), *found = run_each(folder, *[launch()] * len(prepare), prepare=prepare)
    assert first == 117
    assert dict(zip(CHANGES, found, strict=True)) == {what: (change[3], True) for what, change in CHANGES.items()}


@pytest.mark.parametrize("what", ["module", "helper"])
def test_a_changed_source_has_a_manifest_and_one_that_is_changed_back_finds_its_own(what: str, folder: Path) -> None:
    file, old, new, expected = CHANGES[what]
    changed, restored = (rewritten(folder, file, text) for text in (FILES[file].replace(old, new), FILES[file]))
    (first, _), *found, (last, _) = run_each(folder, *[launch()] * 4, prepare=["", changed, "", restored])
    assert found == [(expected, True), (expected, False)]
    assert first == last == 117


REBOUND = {
    "global": ("kernels.SCALE = 4", 119),
    "type of a global": ("kernels.SCALE = 2.5", 117.5),
    "sign of a zero": ("kernels.PAIR = (3, 0.0)", 117),
    "module": ("import settings; settings.SHIFT = 0", 17),
    "another module": (OTHER_MODULE, 24),
    "helper": ("import other; kernels.scaled = other.scaled", 114),
    "cell": ("kernels.kernel.function.__closure__[0].cell_contents = 30", 137),
    "default": ("kernels.scaled.function.__defaults__ = (1000,)", 1117),
    "global over a builtin": ("kernels.max = min", 115),
}


def test_what_a_program_binds_anew_is_noticed(folder: Path) -> None:
    write(folder, "other.py", "import pypto as pto\n\n@pto.jit\ndef scaled(v, by):\n    return v - by\n")
    codes = [launch(), *(code for before, _ in REBOUND.values() for code in (launch(before), launch()))]
    first, *found = (number for number, _ in run_each(folder, *codes))
    assert dict(zip(REBOUND, found[::2], strict=True)) == {what: expected for what, (_, expected) in REBOUND.items()}
    assert {first, *found[1::2]} == {117}


def test_arguments_and_options_have_manifests_of_their_own(folder: Path) -> None:
    found = run_each(
        folder, launch(), launch(constant="2"), launch(constant="True"), launch(dtype="float64"), launch(size=65),
        launch("kernels.kernel = kernels.kernel.with_options(disable=('peeling',))"),
        launch("kernels.kernel = kernels.kernel.with_options(num_threads=1)"),
    )  # fmt: skip
    assert [number for number, _ in found] == [117, 127, 117, 117, 117, 117, 117]
    assert all(was_read for _, was_read in found)
    level = "x86-64-v2" if os.uname().machine == "x86_64" else "host"
    assert run(folder, PYPTO_LEVEL=level)[0] == 117
    assert run(folder, PYPTO_CACHE="off") == (117, True)
    assert run(folder, PYPTO_CHECKED="1") == (117, True)
    assert run(folder, PYPTO_INTERPRET="1") == (117, True)
    assert run(folder) == (117, False)


def test_overlapping_arrays_have_a_manifest_of_their_own(folder: Path) -> None:
    shared = launch("import numpy\nreal = numpy.zeros_like\nnumpy.zeros_like = lambda x: x")
    found = run_each(folder, shared, launch(), shared, launch())
    assert found == [(117, True), (117, True), (117, False), (117, False)]


def test_a_module_in_a_module_is_read_anew(folder: Path) -> None:
    changed = FILES["package/inner.py"].replace("FACTOR = 5", "FACTOR = 7")
    nested, bound = launch(name="nested"), launch("import package.inner; package.inner.FACTOR = 8", "nested")
    prepare = ["", rewritten(folder, "package/inner.py", changed), ""]
    assert [number for number, _ in run_each(folder, nested, nested, bound, prepare=prepare)] == [5, 7, 8]


def test_a_module_that_is_missing_elsewhere_is_noticed(folder: Path) -> None:
    missing = launch("import package.inner; package.inner.extra = None", "chosen")
    found = run_each(folder, launch(name="chosen"), missing, launch(name="chosen"))
    assert [number for number, _ in found] == [0, 2, 0]


def test_what_the_front_end_says_is_said_each_time(folder: Path) -> None:
    says = launch(name="says")
    assert run_each(folder, says, says) == [(1, True)] * 2


def test_an_edit_of_the_package_is_noticed(folder: Path) -> None:
    """The key knows files by their times."""
    module = "from importlib import import_module; m = import_module('pypto.jit.manifest'); m.package_files"
    changed, edited = (launch(f"{module} = lambda: {text!r}") for text in ("others", ""))
    assert run_each(folder, launch(), changed, edited) == [(117, True)] * 3


def test_a_damaged_manifest_is_a_miss(folder: Path) -> None:
    spoiled = "import pypto.runtime.disk_cache.cache as c; c.unframe = lambda key, blob: None"
    code = launch(f"import warnings; warnings.simplefilter('ignore'); {spoiled}")
    assert run_each(folder, launch(), code, launch()) == [(117, True), (117, True), (117, False)]


def test_explanations_read_the_source_when_asked(folder: Path) -> None:
    run(folder)
    assert run(folder, launch(EXPLAINED)) == (117, False)
