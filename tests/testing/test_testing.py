"""Measuring and comparing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pypto.compat.triton.tree import contents
from pypto.testing import Benchmark, assert_close, compare, do_bench, do_bench_cudagraph, perf_report, quantile
from pypto.testing.bench import summary


def test_do_bench_gives_what_is_asked() -> None:
    calls: list[int] = []
    assert do_bench(lambda: calls.append(1), warmup=1, rep=1) > 0
    assert calls
    low, high = do_bench(lambda: calls.append(1), warmup=1, rep=1, quantiles=[0.2, 0.8])
    assert low <= high
    times = do_bench_cudagraph(lambda: calls.append(1), rep=1, return_mode="all")
    assert times and all(t > 0 for t in times)
    assert [summary([3.0, 1.0, 2.5], None, mode) for mode in ("min", "median", "max")] == [1.0, 2.5, 3.0]
    with pytest.raises(ValueError, match="return_mode is one of"):
        do_bench(lambda: None, return_mode="fastest")


def test_quantile_is_linear_between_values() -> None:
    assert [quantile([1.0, 2.0, 4.0], q) for q in (0, 0.25, 0.5, 0.75, 1)] == [1, 1.5, 2, 3, 4]


def test_assert_close() -> None:
    assert_close(np.array([1, np.nan], np.float16), [1.0005, np.nan])
    assert_close(3, 3.0)
    with pytest.raises(AssertionError):
        assert_close([1.0], [1.1])
    assert_close([100.0], [101.0], atol=0, rtol=lambda dtype: 0.02)


NARROW = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, *NARROW])
def test_tolerances_follow_the_dtype(dtype: Any) -> None:
    one, eps = np.ones(3, dtype), float(ml_dtypes.finfo(np.float32 if dtype is np.complex64 else dtype).eps)
    assert_close((one + np.array(eps, dtype)).astype(dtype), one)
    with pytest.raises(AssertionError, match="3 of 3 elements differ"):
        assert_close((1.3 if eps > 0.1 else 1.02) * one.astype(np.complex128), one)
    if eps < 1e-6:
        with pytest.raises(AssertionError, match="3 of 3 elements differ"):
            assert_close(one + 1e-4, one.astype(dtype))


def test_the_wider_tolerance_of_two_dtypes_holds() -> None:
    assert_close(np.float16([1.0]), np.array([1.0005]))
    assert_close([1.0], np.array([1.0005], np.float16))
    assert_close(np.float32([0.0]), [9e-6])
    with pytest.raises(AssertionError):
        assert_close([0.0], [9e-6])


def test_integers_are_equal_or_not() -> None:
    assert_close(np.uint8([255]), [255])
    for x, y in ([7], [8]), ([2**62 + 1], [2**62]), (np.uint64([2**64 - 1]), np.uint64([2**64 - 2])), ([True], [False]):
        with pytest.raises(AssertionError, match="1 of 1 elements differ"):
            assert_close(x, y)
    assert_close(np.uint64([2**64 - 1]), np.uint64([2**64 - 2]), atol=1, rtol=0)
    assert_close(np.int64([-(2**63)]), np.int64([-(2**63) + 1]), atol=1, rtol=0)


@pytest.mark.parametrize("given", [{"atol": 1e-5}, {"rtol": lambda dtype: 0.1}])
def test_one_tolerance_alone_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="both `atol` and `rtol`, or neither"):
        assert_close([1.0], [1.0], **given)


def test_triton_keeps_its_own_tolerances() -> None:
    triton = contents()["triton.testing"]["assert_close"]
    triton(np.array([1, np.nan], np.float16), [1.005, np.nan])
    triton([100.0], [101.0], rtol=lambda dtype: 0.02)
    triton([100.0], [101.0], atol=1.5)
    with pytest.raises(AssertionError, match=r"\|x - y\| <= 0.01 is asked for"):
        triton([1.0], [1.1])


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.float32([1, 2]), np.float32([1, 3]), r"1 of 2 .*\n  worst at \[1\]: 2 is not 3, by 1 \(4.19e\+06 ulp"),
        (np.float16([[1, 3]]), np.float32([[1, 3.5]]), r"at \[0, 1\].*by 0.5 \(256 ulp of float16\)"),
        (np.array([1, 9]), np.array([1, 2]), r"worst at \[1\]: 9 is not 2, by 7$"),
        (np.array([np.nan]), np.array([1.0]), r"nan is not 1$"),
        (np.array([np.inf]), np.array([-np.inf]), r"inf is not -inf$"),
        (np.zeros((2, 3)), np.zeros((3, 2)), r"shapes differ: \(2, 3\) is not \(3, 2\)"),
        (2.0, 3.0, r"worst: 2 is not 3"),
        (np.array([1 + 2j]), np.array([1.0]), r"1\+2j is not 1, by 2$"),
    ],
)
def test_assert_close_says_where_and_how_far(x: Any, y: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_close(x, y)


def test_assert_close_takes_infinities_that_are_the_same() -> None:
    assert_close(np.array([np.inf, -np.inf, np.nan]), np.array([np.inf, -np.inf, np.nan]))
    with pytest.raises(AssertionError, match=r"(?s)^layer 3\n2 of 2"):
        assert_close([1, 2], [3, 4], err_msg="layer 3")


def test_compare_takes_turns() -> None:
    order: list[str] = []
    found = compare({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rep=0.01)
    assert order[-4:] == ["a", "b"] * 2
    assert [t.name for t in found.times] == ["a", "b"]
    assert found["a"].min <= found["a"].median <= max(found["a"].all)
    assert found.ratio("b") == found["b"].min / found["a"].min
    assert len(str(found).splitlines()) == 3
    with pytest.raises(ValueError, match="nothing to compare"):
        compare({})


def test_cold_calls_find_other_data_in_the_caches() -> None:
    data = np.zeros(1 << 16, np.uint8)
    assert do_bench(data.sum, warmup=1, rep=1, cold=True) > 0
    assert len(compare({"sum": data.sum}, rep=0.01, cold=True)["sum"].all) >= 3


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Benchmark(
        x_names=["n"], x_vals=[1, 2], line_arg="way", line_vals=["a", "b"], line_names=["A", "B"], plot_name="",
        args={"factor": 10},
    )  # fmt: skip

    @perf_report(bench)
    def times(n: int, way: str, factor: int) -> tuple[float, float, float]:
        value = float(n * factor + (way == "b"))
        return value, value - 1, value + 1

    assert times(1, "a", 2) == (2.0, 1.0, 3.0)
    rows = times.run(print_data=True, return_df=True)
    assert rows == [{"n": 1, "A": 10.0, "B": 11.0}, {"n": 2, "A": 20.0, "B": 21.0}]
    assert "11.000000" in capsys.readouterr().out
    bench.plot_name = ""
    times.run(save_path=str(tmp_path))
    assert (tmp_path / ".csv").read_text(encoding="utf-8").splitlines()[1] == "1,10.0,11.0"


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int32"])
def test_tensors_are_close_where_torch_says_so(name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    for distance in 2.5 * 10.0 ** np.arange(-9, 1):  # none is where the rounding of a tolerance decides
        for right in (0.0, 1.0, 300.0):
            pair = (
                torch.tensor([right + distance * max(right, 1.0)], dtype=wide).to(dtype),
                torch.tensor([right]).to(dtype),
            )
            assert accepts(assert_close, *pair) == accepts(torch.testing.assert_close, *pair), (distance, right)


def accepts(check: Any, *pair: Any) -> bool:
    try:
        check(*pair)
    except AssertionError:
        return False
    return True
