"""Passes that are printed, logged, and switched off for one kernel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pypto as pto
from pypto.compile import check_disabled, known_passes
from pypto.debug.levels import cache_key, level_text
from pypto.debug.passes import PassLog, passes_of, text_after
from pypto.errors.launch import WrongPass
from pypto.options import KernelOptions
from pypto.passes.manager import observed
from tests.cli.commands import ADD, called, kernels


def softmax(x, y):
    e = pto.exp(x[:] - pto.max(x[:]))
    y[:] = e / pto.sum(e)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.linspace(-1, 1, 300, dtype=np.float32), np.zeros(300, np.float32)


@pytest.mark.parametrize(
    ("names", "text", "way"),
    [
        (
            ("peel",),
            "[E317] pto.jit cannot switch off `peel`: the compiler has no such pass",
            "did you mean `peeling`? ",
        ),
        (("allocate",), "[E317] pto.jit cannot switch off `allocate`: code would not be right without it", "leave it"),
    ],
)
def test_names_that_cannot_be_switched_off(names: tuple[str, ...], text: str, way: str) -> None:
    with pytest.raises(WrongPass) as caught:
        pto.jit(disable=names)(softmax)
    lines = str(caught.value).splitlines()
    assert lines[0] == text
    assert lines[-1].removeprefix("  help: ").startswith(way)


def test_every_row_says_why() -> None:
    rows = known_passes()
    assert all(len(row.reason) > 10 for row in rows.values())
    assert all(row.optional for row in rows.values() if row.run is None)
    check_disabled(tuple(name for name, row in rows.items() if row.optional))


def test_a_disabled_technique_is_not_in_the_code_and_is_in_the_key() -> None:
    x, y = arrays()
    plain, without = pto.jit(softmax), pto.jit(disable=["fusion"])(softmax)
    versions = [kernel.compile(x=x, y=y) for kernel in (plain, without)]
    assert "| reduce sum" in level_text(versions[0], "loop-ir")
    assert "| reduce sum" not in level_text(versions[1], "loop-ir")
    assert versions[1].program.function.attrs["disable"] == ("fusion",)
    assert cache_key(plain, x=x, y=y) != cache_key(without, x=x, y=y)
    without[1](x, y)
    assert np.allclose(y, np.exp(x) / np.exp(x).sum(), rtol=1e-5)


def test_the_order_of_names_is_no_part_of_the_options() -> None:
    assert KernelOptions().changed({"disable": ("peeling", "fusion")}) == KernelOptions().changed(
        {"disable": {"fusion", "peeling"}}
    )


def test_the_ir_after_a_pass_is_printed(tmp_path: Path) -> None:
    def after(name: str, *options: str) -> str:
        result = called(
            "compile", f"{kernels(tmp_path)}:add", *ADD[:3], "BLOCK=256", "--emit", f"after:{name}", *options
        )
        return result.output

    assert after("access").startswith("kernel @add(")
    assert "%row" not in after("materialize")
    assert after("fusion").startswith("scratch 0 bytes\nscalar ")
    assert "nest sharing 1\n  - store tile_store" in after("offsets")
    assert after("coarsening", "--target", "ascend910b2").startswith("kernel @add(")
    assert "-> vector:" in after("insert_sync", "--target", "ascend910b2")
    assert "did you mean fusion?" in after("fuson")
    assert "there are widen, cse, canonicalize, dce, induction, access, licm" in after("peeling").replace("\n", " ")
    assert "the pass does not run for this kernel" in after("k_blocking")


def test_a_pass_that_is_switched_off_gives_no_ir() -> None:
    x, y = arrays()
    version = pto.jit(disable=("fusion",))(softmax).compile(x=x, y=y)
    assert text_after(version, "fusion") == ""
    assert text_after(version, "offsets").count("nest") == 4


def test_passes_that_change_something_are_logged(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = arrays()
    kernel = pto.jit(softmax)
    backend = kernel.compile(x=x, y=y).program.backend
    with observed(PassLog("softmax", backend.print_ir)):
        pto.jit(softmax).compile(x=x, y=y)
    heads = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pypto: ")]
    names = [head.removeprefix("pypto: softmax after ") for head in heads]
    assert {"materialize", "build", "fusion"} <= {*names} <= passes_of(backend).keys()
    assert "widen_narrow_scans" not in names
