"""Exports the counts of routes as metrics for Prometheus, by `prometheus_client`.

An object with `collect()`, as `Routes` is, can be registered with that library's server:
``prometheus_client.REGISTRY.register(pypto.torch.routes)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pypto.routing.monitor import Report, VersionCounts

Samples = Callable[["VersionCounts"], dict[tuple[str, str, str], float]]  # suffix, label, its value → number
# Name, kind, help, and the samples of a row.
METRICS: Final[tuple[tuple[str, str, str, Samples], ...]] = (
    ("calls", "counter", "Calls that were given to a version", lambda r: {("_total", "", ""): r.calls}),
    ("answers", "counter", "Calls that were answered by a version", lambda r: {("_total", "", ""): r.answers}),
    ("compared", "counter", "Calls that were compared with the reference", lambda r: {("_total", "", ""): r.compared}),
    ("bytes", "counter", "Bytes of arguments and results", lambda r: {("_total", "", ""): r.bytes}),
    (
        "fallbacks", "counter", "Calls of a version that the reference answered",
        lambda r: {("_total", "reason", reason): count for reason, count in r.reasons.items()},
    ),
    (
        "seconds", "summary", "Seconds of a call",
        lambda r: {
            ("", "quantile", "0.5"): r.p50, ("", "quantile", "0.99"): r.p99,
            ("_sum", "", ""): r.seconds, ("_count", "", ""): r.computed,
        },
    ),
    ("difference", "gauge", "Largest difference from the reference", lambda r: {("", "", ""): r.difference}),
    ("share", "gauge", "Part of the calls that a version is given", lambda r: {("", "", ""): r.share}),
    ("demoted", "gauge", "Whether a version is demoted", lambda r: {("", "", ""): r.state.startswith("demoted")}),
)  # fmt: skip


def families(report: Report) -> Iterator[Any]:
    """Yields the metrics as families of `prometheus_client`."""
    from prometheus_client.core import Metric

    for name, kind, text, samples in METRICS:
        metric = Metric(f"pypto_operator_{name}", text, kind)
        for row in report.rows:
            for (suffix, label, value), number in samples(row).items():
                labels = {"operator": row.operator, "version": row.version} | ({label: value} if label else {})
                metric.add_sample(f"{metric.name}{suffix}", labels, float(number))
        yield metric
    stuck = Metric("pypto_operator_stuck_threads", "Threads that have not returned within their limit", "gauge")
    stuck.add_sample(stuck.name, {}, float(report.stuck))
    yield stuck


def text(report: Report) -> str:
    """Returns the metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    class ReportCollector:
        def collect(self) -> Iterator[Any]:
            return families(report)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReportCollector())
    return bytes(generate_latest(registry)).decode()
