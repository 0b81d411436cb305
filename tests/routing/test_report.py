"""The monitor: counts, quantiles and bytes, as a table, JSON, HTML, and text for Prometheus; and what a call costs."""

from __future__ import annotations

import json
import timeit
from collections.abc import Iterator

import numpy as np
import pytest

from pypto import library as lib
from pypto.routing import Report, Routes

X, G = np.ones((4, 64), np.float32), np.ones(64, np.float32)
BYTES = 2 * X.nbytes + G.nbytes


@pytest.fixture
def routes() -> Iterator[Routes]:
    routes = Routes()
    yield routes
    routes.clear()


def counted(routes: Routes) -> Report:
    """A report of eight calls of a function: six by its reference, one that is right, and one that fails."""

    def fails(x: int) -> int:
        if x > 3:
            raise MemoryError("no room")
        return x

    f = routes.register('f "quoted"', "1.0", lambda x: x)
    f.register("2.0", fails).ab({"1.0": 0.75, "2.0": 0.25})
    assert [f(n) for n in range(8)] == [*range(8)]
    return routes.report()


def test_rows_have_calls_bytes_and_times(routes: Routes) -> None:
    routes["rms_norm"].monitor()
    for _ in range(5):
        lib.rms_norm(X, G)
    (row,) = routes.report().rows
    assert (row.operator, row.version, row.share, row.state) == ("rms_norm", "rows", 1.0, "reference")
    assert (row.calls, row.answers, row.computed, row.bytes, row.fallbacks) == (5, 5, 5, 5 * BYTES, 0)
    assert 0 < row.p50 <= row.p99 <= row.seconds
    routes["rms_norm"].clear()
    lib.rms_norm(X, G)
    assert routes.report().rows[0].calls == 5


def test_the_table_and_the_page_say_what_failed(routes: Routes) -> None:
    report = counted(routes)
    text = str(report)
    assert "1 out of memory" in text
    assert [line.split("│")[2].strip() for line in text.splitlines() if 'f "quoted"' in line] == ["1.0", "2.0"]
    page = report._repr_html_()
    assert "1 out of memory" in page
    assert "f &quot;quoted&quot;" in page
    assert "1 out of memory" in routes['f "quoted"']._repr_html_()


def test_json_has_all_fields(routes: Routes) -> None:
    data = json.loads(counted(routes).json())
    assert data["stuck"] == 0
    assert [(row["version"], row["calls"], row["reasons"]) for row in data["operators"]] == [
        ("1.0", 6, {}),
        ("2.0", 2, {"out of memory": 1}),
    ]


def test_prometheus_reads_the_text(routes: Routes) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    report = counted(routes)
    families = {family.name: family for family in text_string_to_metric_families(report.prometheus())}
    assert {name: family.type for name, family in families.items()} == {
        **{f"pypto_operator_{n}": "counter" for n in ("calls", "answers", "compared", "bytes", "fallbacks")},
        "pypto_operator_seconds": "summary",
        **{f"pypto_operator_{n}": "gauge" for n in ("difference", "share", "demoted", "stuck_threads")},
    }
    calls = {(s.name, s.labels["version"]): s.value for s in families["pypto_operator_calls"].samples}
    assert calls == {("pypto_operator_calls_total", "1.0"): 6, ("pypto_operator_calls_total", "2.0"): 2}
    (failed,) = families["pypto_operator_fallbacks"].samples
    assert failed.labels == {"operator": 'f "quoted"', "version": "2.0", "reason": "out of memory"}
    times = {(s.name, s.labels.get("quantile")) for s in families["pypto_operator_seconds"].samples}
    assert times == {
        ("pypto_operator_seconds", "0.5"),
        ("pypto_operator_seconds", "0.99"),
        ("pypto_operator_seconds_sum", None),
        ("pypto_operator_seconds_count", None),
    }
    registry = CollectorRegistry()
    registry.register(routes)
    assert generate_latest(registry).decode() == report.prometheus()


def test_without_a_route_a_call_pays_for_one_attribute() -> None:
    row = lib.rows["rms_norm"]
    count = 100_000
    seconds = min(timeit.repeat(lambda: row.route is None, number=count, repeat=5)) / count
    assert seconds < 0.5e-6
    assert "route" not in vars(row)
