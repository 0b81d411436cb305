"""The commands of the library."""

from __future__ import annotations

from pypto.library import rows
from tests.cli.commands import answer, called


def test_list_and_show() -> None:
    said = answer("lib", "list")["operators"]
    assert [row["name"] for row in said] == list(rows)
    assert "mean(x²)" in called("lib", "show", "rms_norm").stdout


def test_check_tells_of_every_case() -> None:
    said = answer("lib", "check", "rms_norm", "--platform", "interpreter")["checked"]
    assert {one["case"] for one in said} == set(rows["rms_norm"].cases)
    assert all(one["platform"] == "interpreter" for one in said)


def test_check_compares_some_items_of_a_large_size() -> None:
    (said,) = answer("lib", "check", "sinkhorn", "--case", "model", "--items", "5")["checked"]
    assert said["case"] == "model"
    assert said["errors"]["y"] < 1e-5


def test_bench_predicts_for_a_chip() -> None:
    (said,) = answer("lib", "bench", "rms_norm", "--case", "small", "--platform", "ascend910b2")["times"]
    assert 0 < said["predicted"] < 1
    assert said["used"].endswith("%")


def test_bench_here() -> None:
    (said,) = answer("lib", "bench", "rms_norm", "--case", "small", "--rep", "1")["times"]
    assert said["pypto"] > 0


def test_an_unknown_operator_is_a_failure() -> None:
    found = called("lib", "show", "rmsnorm")
    assert found.exit_code == 1
    assert "E374" in found.stderr


def test_an_unknown_case_or_dtype_is_a_failure_that_names_those_there_are() -> None:
    for command in (("check", "rms_norm", "--case", "zero"), ("bench", "rms_norm", "--case", "zero")):
        found = called("lib", *command)
        assert found.exit_code == 1
        assert "E368" in found.stderr
        assert "did you mean zeros?" in found.stderr
        assert "model, one row of one, small, zeros" in found.stderr
    found = called("lib", "bench", "rms_norm", "--case", "small", "--dtype", "f33")
    assert found.exit_code == 1
    assert "allows bf16 or f16 or f32" in found.stderr


def test_negative_seeds_and_items_are_refused() -> None:
    assert called("lib", "check", "rms_norm", "--seed", "-1").exit_code == 2
    assert called("lib", "check", "rms_norm", "--items", "-1").exit_code == 2
