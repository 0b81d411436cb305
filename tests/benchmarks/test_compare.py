"""The regression check: by ratio, so that a slower machine is no regression."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.compare import changes, worse


def run(ours: float = 1.0, numpy: float = 2.0, **more: float) -> dict[str, Any]:
    times = {"ours": ours, "numpy": numpy, **more}
    made = {name: {"ours_is": t / ours, "of_limit": 0.5 / t} for name, t in times.items()}
    return {
        "suite": "rows", "limits": {"fma": {"1": 1e9}}, "probes": [], "growths": [],
        "rows": [{"name": "add", "shape": "8", "threads": 2, "implementations": made}],
    }  # fmt: skip


def test_equal_runs() -> None:
    assert worse(changes(run(), run())) == []


def test_a_machine_at_half_speed_is_no_regression() -> None:
    assert worse(changes(run(1.0, 2.0), run(2.0, 4.0))) == []


def test_a_lost_ratio() -> None:
    (bad,) = worse(changes(run(1.0, 2.0), run(1.5, 2.0)))
    assert (bad.what, bad.by, bad.old) == ("add 8, 2 threads", "best peer", 2.0)
    assert bad.factor == pytest.approx(1 / 1.5)
    assert worse([bad], 0.5) == []


def test_only_common_peers_count() -> None:
    assert worse(changes(run(1.0, 2.0), run(1.0, 2.0, torch=0.1))) == []


def test_without_a_common_peer_the_limit_counts() -> None:
    old, new = run(1.0), run(2.0)
    del new["rows"][0]["implementations"]["numpy"]
    (bad,) = worse(changes(old, new))
    assert (bad.by, bad.factor) == ("limit", 0.5)
    old["rows"][0]["implementations"]["ours"]["of_limit"] = None
    assert changes(old, new) == []


def test_what_is_gone_is_worse() -> None:
    new = run()
    del new["rows"][0]["implementations"]["ours"]
    assert [bad.by for bad in worse(changes(run(), new))] == ["gone"]
    assert [bad.by for bad in worse(changes(run(), {**run(), "rows": []}))] == ["gone"]
    assert worse(changes({**run(), "rows": []}, run())) == []


def test_what_never_worked_is_not_compared() -> None:
    old = run()
    del old["rows"][0]["implementations"]["ours"]
    assert changes(old, run()) == []


def timed(seconds: float, speed: float = 1e9) -> dict[str, Any]:
    made = {**run(), "limits": {"fma": {"1": speed}}}
    made["probes"] = [{"name": "cold compile", "what": "softmax", "minimum_s": seconds}]
    made["growths"] = [{"name": "straight", "lines": [10, 100], "seconds": {"lower": [1e-4, seconds]}}]
    return made


def test_times_count_against_the_machine() -> None:
    assert worse(changes(timed(1.0), timed(2.0, 0.5e9))) == []
    assert [bad.what for bad in worse(changes(timed(1.0), timed(2.0)))] == [
        "cold compile: softmax",
        "compiling straight, 100 lines: lower",
    ]
    gone = copy.deepcopy(timed(1.0))
    gone["growths"][0]["lines"] = [10]
    assert [bad.by for bad in worse(changes(timed(1.0), gone))] == ["gone"]


@pytest.mark.parametrize(("new", "code"), [(run(), 0), (run(2.0), 1)])
def test_exit_code(new: Any, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    for file, data in zip(files, (run(), new), strict=True):
        file.write_text(json.dumps(data), "utf-8")
    assert main(["compare", *map(str, files)]) == code
    shown = capsys.readouterr().out
    assert f"{code} of 1 figures lost more than 10%" in shown
    assert ("-50%" in shown) is bool(code)


@pytest.mark.parametrize(("text", "words"), [("[]", "holds no run"), ("{", "Expecting"), (None, "No such file")])
def test_no_run_in_a_file(text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.json"
    if text is not None:
        file.write_text(text, "utf-8")
    assert main(["compare", str(file), str(file)]) == 2
    assert words in " ".join(capsys.readouterr().out.split())
