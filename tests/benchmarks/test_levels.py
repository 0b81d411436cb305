"""A run with a forced level: its settings, who is held to it, and the limits that are measured at it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from benchmarks import steady
from benchmarks.levels import OURS, PEERS, TORCH, TORCH_CACHE, UNFORCED, environment, note
from benchmarks.limits import compile_loops
from pypto.backends.cpu.target import level_target
from tests.conformance.processes import python


@pytest.mark.parametrize("level", PEERS)
def test_a_level_names_every_library(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(level).items():
        monkeypatch.setenv(name, value)
    held, others = note().removeprefix(f"held to {level}: ").split("; ")
    assert held.split(", ") == ["ours", *PEERS[level]]
    assert others.endswith(": " + ", ".join(UNFORCED))


def test_a_library_without_its_setting_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OURS, "x86-64-v3")
    for row in PEERS["x86-64-v3"].values():
        for name in row:
            monkeypatch.delenv(name, raising=False)
    assert note().startswith("held to x86-64-v3: ours; not held")
    monkeypatch.delenv(OURS)
    assert not note()


def test_a_process_starts_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, _argv, env: started.append(env))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in (*steady.STEADY, *environment("x86-64-v2")):
        os.environ.pop(name, None)
    steady.become_steady(environment("x86-64-v2"))
    assert started[0][OURS] == "x86-64-v2"
    assert started[0]["ONEDNN_MAX_CPU_ISA"] == "SSE41"
    monkeypatch.setattr(os, "environ", started[0])
    steady.become_steady(environment("x86-64-v2"))
    assert len(started) == 1


def test_each_level_has_a_compile_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TORCH_CACHE, "/home/of/the/user")
    for name in (OURS, TORCH):
        monkeypatch.delenv(name, raising=False)
    folders = [environment(level)[TORCH_CACHE] for level in ("", *PEERS)]
    monkeypatch.setenv(TORCH, "avx2")
    folders.append(environment("")[TORCH_CACHE])
    assert len(set(folders)) == len(PEERS) + 2
    assert all("pypto-benchmarks" in Path(folder).parts for folder in folders)


@pytest.mark.slow
def test_a_level_leaves_the_compile_cache_of_others_alone(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None or not (shutil.which("c++") or shutil.which("g++")):
        pytest.skip("inductor finds no compiler here")
    theirs, ours = tmp_path / "theirs", tmp_path / "cache"
    given = {"XDG_CACHE_HOME": str(ours), "LOCALAPPDATA": str(ours), "HOME": str(ours), TORCH_CACHE: str(theirs)}
    held = ("--level", "x86-64-v3", "--threads", "1", "--rounds", "2", "--peers", "torch,torch.compile")
    python("-W", "ignore", "-m", "benchmarks", "inductor", "--only", "gelu", *held, **given)
    assert not theirs.exists()
    assert any("x86-64-v3" in path.parts for path in ours.rglob("*.so"))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_limits_are_of_the_level(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as llvm

    if "x86" not in llvm.get_process_triple() or not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("the host cannot run x86-64-v3")
    monkeypatch.setenv(OURS, level)
    machine = compile_loops()
    assert machine.width == level_target(level).vector_bytes // 4
    assert set(machine.products) == {"fma", "fma64"}
    assert not machine.tiles
