"""Commands that run, compile and explain kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pypto.backends.cpu.runtime.aot import levels
from pypto.cli.specs import UsageError, arguments, kernel_of
from pypto.debug.codes import codes
from tests.cli.commands import ADD, LEVELS, answer, called, kernels


@pytest.mark.parametrize("mode", [(), ("--interpret",)])
def test_run_launches_a_kernel_and_shows_what_it_wrote(tmp_path: Path, mode: tuple[str, ...]) -> None:
    said = answer("run", f"{kernels(tmp_path)}:add", *ADD, "--grid", "4", *mode)
    assert list(said["written"]) == ["out"]
    assert said["written"]["out"]["first"][:3] == [1.0, 2.0, 3.0]


def test_run_runs_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('argument', sys.argv[1])\n", encoding="utf-8")
    result = called("run", script, "seven")
    assert result.exit_code == 0
    assert "argument seven" in result.stdout


def test_a_mistake_in_a_kernel_is_its_text_and_an_exit_code(tmp_path: Path) -> None:
    result = called("run", f"{kernels(tmp_path)}:wrong", "x=f32[4]", "out=f32[4]")
    assert result.exit_code == 1
    assert "[E203] the name `missing` is not defined" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("run", "nothing.py:add"), "there is no file nothing.py"),
        (("compile", "add"), "write FILE:KERNEL"),
        (("run", "{file}:ad"), "did you mean add?"),
        (("run", "{file}:add", "z=1"), "the kernel has no parameter 'z'"),
        (("run", "{file}:add", "x"), "is no argument"),
        (("run", "{file}:add", "x=f33[2]"), "'f33' is no element type"),
        (("run", "{file}:add", "x=f32[2]:sevens"), "cannot be filled with 'sevens'"),
        (("run", "{file}:add", "x=import os"), "neither an array nor a Python literal"),
        (("run", "{file}:add", "x=@no.npy"), "no.npy cannot be read"),
        (("run", "{file}:add", *ADD, "--grid", "a"), "is no grid"),
        (("compile", "{file}:add", *ADD, "--emit", "wasm"), "is none of timings, tile-ir"),
        (("compile", "{file}:add", *ADD, "--emit", "object", "-o", "add.txt"), "a file that ends in .o, not add.txt"),
        (("compile", "{file}:add", *ADD, "--also", "x=f64[2]"), "are for --emit object and shared, not timings"),
        (("explain", "E999"), "no diagnostic has the code E999"),
        (("ops", "cumsun"), "did you mean cumsum?"),
    ],
)
def test_a_mistake_on_the_command_line_says_what_to_write(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    file = kernels(tmp_path)
    result = called(*(part.format(file=file) for part in command))
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("level", LEVELS)
def test_compile_shows_every_level(tmp_path: Path, level: str) -> None:
    out = tmp_path / "text"
    assert called("compile", f"{kernels(tmp_path)}:add", *ADD, "--emit", level, "-o", out).exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert len(text.splitlines()) > 3
    assert answer("compile", f"{kernels(tmp_path)}:add", *ADD, "--emit", level)[level] == text


def test_compile_ahead_of_time_writes_an_object_and_a_header(tmp_path: Path) -> None:
    out = tmp_path / "add.o"
    also = ("--also", "x=f64[1000] y=f64[1000] out=f64[1000]", "--level", levels()[0]) if levels()[0] else ()
    said = answer("compile", f"{kernels(tmp_path)}:add", *ADD, "--emit", "object", "-o", out, *also)
    assert said["files"] == [str(out), str(out.with_suffix(".h"))]
    assert said["versions"] == (2 if also else 1)
    assert out.read_bytes()[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe") or out.stat().st_size > 1000
    assert "static inline int32_t add(" in out.with_suffix(".h").read_text(encoding="utf-8")


def test_compile_tells_the_time_of_every_stage(tmp_path: Path) -> None:
    said = answer("compile", f"{kernels(tmp_path)}:add", *ADD)
    assert said["seconds"].keys() >= {"frontend", "prepare", "load"}


def test_bench_times_launches(tmp_path: Path) -> None:
    said = answer("bench", f"{kernels(tmp_path)}:add", *ADD, "--grid", "4", "--ms", "5")
    assert 0 < said["min_ms"] <= said["median_ms"] <= said["p90_ms"]


def test_explain_of_a_kernel_tells_its_findings(tmp_path: Path) -> None:
    result = called("explain", f"{kernels(tmp_path)}:add", *ADD)
    assert result.exit_code == 0
    assert "add, compiled for" in result.stdout
    said = answer("explain", f"{kernels(tmp_path)}:add", *ADD)
    assert said["findings"][0].keys() == {"topic", "file", "line", "text", "way"}
    chip = answer("explain", f"{kernels(tmp_path)}:add", *ADD, "--target", "ascend910b2")
    assert "it runs on vector cores" in [row["text"] for row in chip["findings"]]


def test_every_diagnostic_is_explained_by_its_code() -> None:
    assert len(codes()) > 50
    for code in codes().values():
        assert answer("explain", code.code)["name"] == code.name
        assert code.message


def test_arrays_of_a_command_line_are_the_same_every_time() -> None:
    texts = ["x=bf16[3,5]", "n=7", "flags=bool[9]"]
    first, second = (arguments(texts, ["n", "x", "flags"]) for _ in range(2))
    assert first["n"] == 7
    assert first["x"].shape == (3, 5)
    assert all(np.array_equal(first[n], second[n]) for n in ("x", "flags"))


def test_a_kernel_keeps_what_its_file_imports_beside_it(tmp_path: Path) -> None:
    (tmp_path / "helper_for_cli.py").write_text("FACTOR = 3\n", encoding="utf-8")
    path = tmp_path / "scaled.py"
    text = "import pypto as pto\nfrom helper_for_cli import FACTOR\n\n"
    text += "@pto.jit\ndef scale(x):\n    x[:] = x[:] * FACTOR\n"
    path.write_text(text, encoding="utf-8")
    x = np.ones(3, np.float32)
    kernel_of(f"{path}:scale")[1](x)
    assert x.tolist() == [3, 3, 3]
    with pytest.raises(UsageError, match="its kernels are: scale"):
        kernel_of(f"{path}:scaled")
