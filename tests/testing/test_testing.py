"""Measuring and comparing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pypto.testing import Benchmark, assert_close, do_bench, do_bench_cudagraph, perf_report, quantile


def test_do_bench_gives_what_is_asked() -> None:
    calls: list[int] = []
    assert do_bench(lambda: calls.append(1), warmup=1, rep=1) > 0
    assert calls
    low, high = do_bench(lambda: calls.append(1), warmup=1, rep=1, quantiles=[0.2, 0.8])
    assert low <= high
    times = do_bench_cudagraph(lambda: calls.append(1), rep=1, return_mode="all")
    assert do_bench(lambda: None, 1, 1, return_mode="min") <= max(times) + 1e3
    with pytest.raises(ValueError, match="return_mode is one of"):
        do_bench(lambda: None, return_mode="fastest")


def test_quantile_is_linear_between_values() -> None:
    assert [quantile([1.0, 2.0, 4.0], q) for q in (0, 0.25, 0.5, 0.75, 1)] == [1, 1.5, 2, 3, 4]


def test_assert_close() -> None:
    assert_close(np.array([1, np.nan], np.float16), [1.005, np.nan])
    assert_close(3, 3.0)
    with pytest.raises(AssertionError):
        assert_close([1.0], [1.1])
    assert_close([100.0], [101.0], rtol=lambda dtype: 0.02)


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
