"""Launches out of the disk cache read no source; whatever a kernel depends on, a change of it is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
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
print(y[1], "pypto.frontend.build" in sys.modules, "llvmlite.binding" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        write(tmp_path, name, text)
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    write(folder, name, text.replace(old, new))


def run(
    folder: Path, before: str = "", name: str = "kernel", constant: str = "1", dtype: str = "float32", size: int = 64,
    **environment: str,
) -> tuple[float, bool]:  # fmt: skip
    """In a new process, the second element that a kernel writes, and whether its source was read."""
    code = RUN.format(before=before, name=name, constant=constant, dtype=dtype, size=size)
    settings = {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))), "PYPTO_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-W", "error", "-c", code]
    environ = {**os.environ, **settings, **environment}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=limit(120), check=False)
    assert done.returncode == 0, done.stderr
    number, was_read, _ = done.stdout.splitlines()[-1].split()
    return float(number), was_read == "True"


def test_a_second_process_reads_no_source_and_needs_no_llvm(folder: Path) -> None:
    assert run(folder) == (117, True)
    assert run(folder) == (117, False)


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


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_noticed(what: str, folder: Path) -> None:
    file, old, new, expected = CHANGES[what]
    run(folder)
    edit(folder, file, old, new)
    assert run(folder) == (expected, True)


@pytest.mark.parametrize("what", ["module", "helper"])
def test_a_changed_source_has_a_manifest_and_one_that_is_changed_back_finds_its_own(what: str, folder: Path) -> None:
    file, old, new, expected = CHANGES[what]
    run(folder)
    edit(folder, file, old, new)
    assert [run(folder) for _ in range(2)] == [(expected, True), (expected, False)]
    edit(folder, file, new, old)
    number, _ = run(folder)
    assert number == 117


REBOUND = {
    "global": ("kernels.SCALE = 4", 119),
    "type of a global": ("kernels.SCALE = 2.5", 117.5),
    "sign of a zero": ("kernels.PAIR = (3, 0.0)", 117),
    "module": ("import settings; settings.SHIFT = 0", 17),
    "another module": (OTHER_MODULE, 24),
    "helper": ("kernels.scaled = kernels.pto.jit(lambda v, by: v - by)", None),
    "cell": ("kernels.kernel.function.__closure__[0].cell_contents = 30", 137),
    "default": ("kernels.scaled.function.__defaults__ = (1000,)", 1117),
    "global over a builtin": ("kernels.max = min", 115),
}


@pytest.mark.parametrize("what", REBOUND)
def test_what_a_program_binds_anew_is_noticed(what: str, folder: Path) -> None:
    run(folder)
    before, expected = REBOUND[what]
    if expected is None:
        write(folder, "other.py", "import pypto as pto\n\n@pto.jit\ndef scaled(v, by):\n    return v - by\n")
        before, expected = "import other; kernels.scaled = other.scaled", 114
    assert run(folder, before)[0] == expected
    assert run(folder)[0] == 117


def test_arguments_and_options_have_manifests_of_their_own(folder: Path) -> None:
    run(folder)
    assert run(folder, constant="2") == (127, True)
    assert run(folder, constant="True")[1]
    assert run(folder, dtype="float64") == (117, True)
    assert run(folder, size=65) == (117, True)
    assert run(folder, "kernels.kernel = kernels.kernel.with_options(disable=('peeling',))") == (117, True)
    assert run(folder, "kernels.kernel = kernels.kernel.with_options(num_threads=1)") == (117, True)
    level = "x86-64-v2" if os.uname().machine == "x86_64" else "host"
    assert run(folder, PYPTO_LEVEL=level)[0] == 117
    assert run(folder, PYPTO_CACHE="off") == (117, True)
    assert run(folder, PYPTO_CHECKED="1") == (117, True)
    assert run(folder, PYPTO_INTERPRET="1") == (117, True)
    assert run(folder) == (117, False)


def test_overlapping_arrays_have_a_manifest_of_their_own(folder: Path) -> None:
    shared = "import numpy\nreal = numpy.zeros_like\nnumpy.zeros_like = lambda x: x"
    for expected in (True, False):
        assert run(folder, shared) == (117, expected)
        assert run(folder) == (117, expected)


def test_a_module_in_a_module_is_read_anew(folder: Path) -> None:
    assert run(folder, name="nested")[0] == 5
    edit(folder, "package/inner.py", "FACTOR = 5", "FACTOR = 7")
    assert run(folder, name="nested")[0] == 7
    assert run(folder, "import package.inner; package.inner.FACTOR = 8", name="nested")[0] == 8


def test_a_module_that_is_missing_elsewhere_is_noticed(folder: Path) -> None:
    assert run(folder, name="chosen")[0] == 0
    assert run(folder, "import package.inner; package.inner.extra = None", name="chosen")[0] == 2
    assert run(folder, name="chosen")[0] == 0


def test_what_the_front_end_says_is_said_each_time(folder: Path) -> None:
    assert run(folder, name="says") == (1, True)
    assert run(folder, name="says") == (1, True)


def test_an_edit_of_the_package_is_noticed(folder: Path) -> None:
    """The key knows files by their times."""
    run(folder)
    module = "from importlib import import_module; m = import_module('pypto.jit.manifest'); m.package_files"
    changed = f"{module} = lambda: 'others'"
    assert run(folder, changed) == (117, True)
    edited = f"{module} = lambda: ''"
    assert run(folder, edited) == (117, True)


def test_a_damaged_manifest_is_a_miss(folder: Path) -> None:
    run(folder)
    spoiled = "import pypto.runtime.disk_cache.cache as c; c.unframe = lambda key, blob: None"
    code = f"import warnings; warnings.simplefilter('ignore'); {spoiled}"
    assert run(folder, code) == (117, True)
    assert run(folder) == (117, False)


def test_explanations_read_the_source_when_asked(folder: Path) -> None:
    run(folder)
    assert run(folder, EXPLAINED) == (117, False)
