"""Trials 16 to 21: what an entry of the disk cache depends on. A change of it is a miss; nothing else is."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.debug.levels import cache_key
from pypto.options import KernelOptions, Settings
from tests.patience import limit
from tests.reliability import jobs
from tests.reliability.jobs import run, write_kernels


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "job")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_trial_16_a_callee_in_another_file_is_edited(new: Path) -> None:
    assert run(new).right
    replace(new / "helpers.py", "x * 2", "x * 5")
    replace(new / "job.py", "x * 2 *", "x * 5 *")
    said = run(new)
    assert said.right
    assert said.made == 1


def test_trial_17_a_global_is_changed(new: Path) -> None:
    assert run(new).right
    replace(new / "kernels.py", "SCALE = 3", "SCALE = 4")
    said = run(new)
    assert said.right
    assert said.made == 1


def test_trial_17_closures_and_defaults_are_seen_as_they_are() -> None:
    def kernel_of(factor: int, offset: int) -> Any:
        @pto.jit
        def scaled(x: Any, OFFSET: pto.constexpr = offset) -> None:
            x[:] = x[:] * factor + OFFSET

        return scaled

    for factor, offset in ((2, 0), (3, 0), (3, 7)):
        x = np.ones(5, np.float32)
        kernel_of(factor, offset)[1](x)
        assert (x == factor + offset).all()


@pto.jit
def plain(x: Any) -> None:
    x[:] = x[:] + 1


def digest_with(**options: Any) -> str:
    kernel = pto.Kernel(plain.function, KernelOptions(**options))
    found: str = cache_key(kernel, x=np.zeros(9, np.float32)).digest
    return found


def test_trial_18_every_option_is_in_the_key() -> None:
    is_x86 = sys.platform == "linux" and os.uname().machine == "x86_64"
    other = {"level": "x86-64-v2" if is_x86 else "host", "blocking": pto.Blocking(kc=64), "disable": ("peeling",),
             "affinity": "x"}  # fmt: skip
    digests = {"": digest_with()}
    for row in dataclasses.fields(KernelOptions):
        value = other.get(row.name, not row.default if type(row.default) is bool else 7000)
        digests[row.name] = digest_with(**{row.name: value})
    assert len(set(digests.values())) == len(digests), digests


KEY = """
import numpy as np, pypto as pto
from pypto.debug.levels import cache_key
import kernels
x = np.zeros(9, np.float32)
print(cache_key(kernels.scaled, x=x, out=x.copy(), n=9, BLOCK=16).digest)
"""


def digest(folder: Path, *flags: str, root: Path = jobs.ROOT, cwd: Path | None = None, **environment: str) -> str:
    """The key of a kernel in a process of its own."""
    env = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, *flags, "-c", KEY], env=env, capture_output=True, text=True, check=False,
                          cwd=cwd or folder, timeout=limit(120))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


CODE = ("PYPTO_LEVEL",)  # settings that decide about code
VALUES = {"PYPTO_LEVEL": "x86-64-v2", "PYPTO_CACHE": "ro", "PYPTO_NUM_THREADS": "1", "PYPTO_LAUNCHER": "python",
          "PYPTO_LOG": "specialize", "PYPTO_INTERPRET": "1"}  # fmt: skip


@pytest.mark.skipif(os.name != "posix" or os.uname().machine != "x86_64", reason="feature levels are those of x86-64")
def test_trial_19_settings_that_decide_about_code_are_in_the_key(new: Path) -> None:
    usual = digest(new)
    for row in dataclasses.fields(Settings):
        name = row.metadata["env"]
        if name in VALUES:
            assert (digest(new, **{name: VALUES[name]}) != usual) == (name in CODE), name
    assert digest(new, LANG="tr_TR.UTF-8", OMP_NUM_THREADS="1", COLUMNS="40") == usual


def test_trial_20_an_edited_compiler_is_another(new: Path, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    shutil.copytree(jobs.ROOT / "pypto", root / "pypto", ignore=shutil.ignore_patterns("__pycache__"))
    usual = digest(new, root=root)
    assert usual == digest(new), "the same sources in another place are the same compiler"
    for file in ("backends/cpu/codegen/nest.py", "passes/licm.py", "ops/math/exp.py", "ir/printer.py", "compile.py"):
        path = root / "pypto" / file
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "\n# edited\n", encoding="utf-8")
        assert digest(new, root=root) != usual, file
        path.write_text(text, encoding="utf-8")
    assert digest(new, root=root) == usual


def test_trial_21_keys_are_the_same_wherever_and_however_they_are_made(new: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where" / "ünïcode"
    elsewhere.mkdir(parents=True)
    moved = elsewhere / "job"
    shutil.copytree(new, moved)
    usual = digest(new)
    for made in (digest(new, PYTHONHASHSEED="1"), digest(new, PYTHONHASHSEED="77", TZ="Asia/Tokyo"),
                 digest(new, cwd=elsewhere), digest(moved), digest(new, "-O")):  # fmt: skip
        assert made == usual
