"""Measuring and comparing: what tests and benchmarks of kernels need.

Read `close`, `bench` and `report`.
"""

from pypto.testing.bench import Comparison, Times, compare, do_bench, do_bench_cudagraph, quantile
from pypto.testing.close import assert_close
from pypto.testing.report import Benchmark, Mark, perf_report

__all__ = [
    "Benchmark", "Comparison", "Mark", "Times", "assert_close", "compare", "do_bench", "do_bench_cudagraph",
    "perf_report", "quantile",
]  # fmt: skip
