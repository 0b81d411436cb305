"""`pypto inspect` and `pypto tune`: what they show, what they write, and what they refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto.cli.grids import grid_of
from pypto.cli.inspecting import completed_level
from pypto.cli.specs import UsageError, completed_kernel
from tests.cli.commands import ADD, LEVELS, answer, called, kernels
from tests.house.measure import ROOT
from tests.patience import limit

SHORT = dict(zip(("tile", "optimized", "loop", "llvm", "asm"), LEVELS, strict=True))


def on_a_terminal(*arguments: object) -> str:
    """What a command writes to a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "120"}
    command = [sys.executable, "-m", "pypto", *map(str, arguments)]
    with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        text = b""
        while block := read(ours):
            text += block
        assert running.wait(limit(60)) == 0, text
    return text.decode()


def read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # how Linux says that the other side was closed
        return b""


def test_inspect_shows_the_source_with_types(tmp_path: Path) -> None:
    shown = called("inspect", f"{kernels(tmp_path)}:add", *ADD).stdout
    assert "start: i32" in shown
    assert "stores tile<256xf32>" in shown


@pytest.mark.parametrize(("short", "name"), SHORT.items())
def test_inspect_shows_a_level_beside_the_lines_that_it_comes_from(tmp_path: Path, short: str, name: str) -> None:
    file = kernels(tmp_path)
    lines = answer("inspect", f"{file}:add", *ADD, "--level", short)["levels"][name]
    shown = called("inspect", f"{file}:add", *ADD, "--level", short).stdout
    assert shown.splitlines() == [f"{row['line'] or '':>5} │ {row['text']}".rstrip() for row in lines]
    store = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "out[start" in text)
    assert f"{store:>5} │ " in shown


def test_inspect_of_a_chip_that_is_not_there(tmp_path: Path) -> None:
    shown = called("inspect", f"{kernels(tmp_path)}:add", *ADD, "--target", "ascend910b2", "--level", "ascendc").stdout
    assert "DataCopyPad" in shown


def test_inspect_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "add.html"
    assert str(page) in called("inspect", f"{kernels(tmp_path)}:add", *ADD, "--html", page).stdout
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_inspect_in_colours_on_a_terminal(tmp_path: Path) -> None:
    file = kernels(tmp_path)
    for level in ("source", "llvm"):
        text = on_a_terminal("inspect", f"{file}:add", *ADD, "--level", level)
        assert "\x1b[" in text
        assert "│" in text


def test_levels_are_completed() -> None:
    assert completed_level("a") == ["asm", "ascendc"]
    assert {"source", "tile", "loop", "llvm", "block"} < set(completed_level(""))


def test_kernels_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kernels(tmp_path)
    (tmp_path / "broken.py").write_text("def (", encoding="utf-8")
    assert completed_kernel(f"{file}:") == [f"{file}:add", f"{file}:wrong", f"{file}:tuned"]
    assert completed_kernel(f"{file}:a") == [f"{file}:add"]
    assert completed_kernel(f"{tmp_path}/broken.py:") == completed_kernel(f"{tmp_path}/none.py:") == []
    assert completed_kernel(f"{tmp_path}/ker") == [f"{file}:"]
    monkeypatch.chdir(tmp_path)
    assert completed_kernel("") == ["broken.py:", "kernels.py:"]


def test_tune_tries_writes_and_reports(tmp_path: Path) -> None:
    out = tmp_path / "tuning.json"
    said = answer("tune", f"{kernels(tmp_path)}:tuned", "-o", out)
    found = {row["config"]: row for row in said["configurations"]}
    assert found["BLOCK=-1"]["status"] == "failed"
    assert "a tile has at least one" in found["BLOCK=-1"]["reason"]
    assert found["BLOCK=-1"]["median_ms"] is None
    winner = said["winner"]["BLOCK"]
    assert winner in (64, 128)
    assert found[f"BLOCK={winner}"]["chosen"]
    (row,) = json.loads(out.read_text(encoding="utf-8"))["winners"]
    assert (row["kernel"], row["config"]) == ("tuned", f"BLOCK={winner}")


def test_tune_of_any_kernel_over_a_space_and_within_a_budget(tmp_path: Path) -> None:
    command = ("tune", f"{kernels(tmp_path)}:add", *ADD[:-1], "--grid", "cdiv(x.size, BLOCK)", "--budget", "0.001")
    said = answer(*command, "--space", "BLOCK=64,128,256")
    assert said["configurations"][0]["status"] == "ok"
    assert {row["reason"] for row in said["configurations"][1:]} == {"the time was over"}
    shown = called(*command, "--space", "BLOCK=64,128")
    assert "chosen" in shown.stdout
    assert shown.exit_code == 0


def test_tune_shows_what_is_tried_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    text = on_a_terminal("tune", f"{kernels(tmp_path)}:tuned")
    assert "tuning tuned: " in text
    assert "chosen" in text


def test_bench_and_run_take_the_arguments_of_the_file(tmp_path: Path) -> None:
    file = kernels(tmp_path)
    assert answer("bench", f"{file}:tuned", "--ms", "5")["launches"] > 0
    assert answer("run", f"{file}:tuned")["written"]["out"]["first"][:2] == [2.0, 2.0]
    assert called("run", f"{file}:tuned", *ADD, "--grid", "4").exit_code == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("tune", "{file}:add", *ADD), "put @pto.autotune(…) above it, or write --space"),
        (("tune", "{file}:add", *ADD, "--space", "BLOCK="), "is no constant with values"),
        (("tune", "{file}:add", *ADD, "--space", "BLOK=1"), "is no constant with values"),
        (("inspect", "{file}:add", *ADD, "--level", "block"), "need --target ascend910b2"),
        (("inspect", "{file}:wrong", *ADD[:1], "out=f32[1000]"), "[E203]"),
        (("run", "{file}:add", *ADD, "--grid", "x.y"), "is not understood"),
        (("run", "{file}:add", *ADD, "--grid", "cdiv(x.size, BLOK)"), "BLOK"),
        (("run", "{file}:add", *ADD, "--grid", "__import__('os').getpid()"), "is not understood"),
    ],
)
def test_mistakes_say_what_to_write(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    file = kernels(tmp_path)
    result = called(*(part.format(file=file) for part in command))
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert "Traceback" not in result.output


def test_arguments_of_a_file_that_the_kernel_has_not(tmp_path: Path) -> None:
    path = tmp_path / "more.py"
    path.write_text("import pypto as pto\n@pto.jit\ndef k(x):\n    x[0] = 1\ndef make_args():\n    return {'y': 1}\n")
    result = called("bench", f"{path}:k")
    assert result.exit_code == 2
    assert "make_args() gives y; k takes x" in result.output


@pytest.mark.parametrize(
    ("text", "given", "grid"),
    [
        ("7", {}, (7,)),
        ("2,3,4", {}, (2, 3, 4)),
        ("n // 2 + 1, min(n, 3)", {"n": 9}, (5, 3)),
        ("x.shape[0], len(x) - 1", {"x": np.zeros((4, 5))}, (4, 3)),
        ("cdiv(x.size, B) * 2", {"x": np.zeros(10), "B": 4}, (6,)),
    ],
)
def test_grids(text: str, given: dict[str, Any], grid: tuple[int, ...]) -> None:
    made = grid_of(text)
    assert (made(given) if callable(made) else made) == grid


@pytest.mark.parametrize("text", ["", "a b", "x.data", "open('f')", "1.5", "n[0]", "[n]", "n // 0"])
def test_what_is_no_grid(text: str) -> None:
    with pytest.raises(UsageError, match="is no grid"):
        made = grid_of(text)
        assert callable(made)
        made({"n": 1, "x": np.zeros(3)})


def test_tune_for_a_chip_that_is_not_there(tmp_path: Path) -> None:
    out = tmp_path / "tuning.json"
    said = answer("tune", f"{kernels(tmp_path)}:tuned", "--target", "ascend910b2", "-o", out)
    times = {row["config"]: row["median_ms"] for row in said["configurations"] if row["status"] == "ok"}
    assert times.keys() == {"BLOCK=64", "BLOCK=128"}
    assert f"BLOCK={said['winner']['BLOCK']}" == min(times, key=lambda name: times[name])
    assert json.loads(out.read_text(encoding="utf-8"))["winners"][0]["target"].startswith("ascend910b2")


def test_run_compares_with_the_interpreter(tmp_path: Path) -> None:
    shown = called("run", f"{kernels(tmp_path)}:add", *ADD, "--grid", "4", "--verify").stdout
    assert "add: 4 programs, compiled as interpreted" in shown
    assert "out = [" in shown
