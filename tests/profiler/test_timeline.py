"""The timeline: slices that nest, on the tracks of their threads, in a form that trace viewers read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.sites import Site
from pypto.loc import Loc
from pypto.profiler import Profile
from pypto.profiler.profile import Launch
from pypto.profiler.timeline import timeline_text
from tests.profiler.kernels import add
from tests.profiler.test_profile import attend

KINDS = ("launch", "program", "label", "loop", "nest", "dot", "pack", "branch", "sort")


def slices(text: str) -> list[dict[str, Any]]:
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]


def assert_nested(found: list[dict[str, Any]]) -> None:
    """On one track, any two slices lie apart or one in the other."""
    open_until: list[float] = []
    for event in sorted(found, key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        while open_until and open_until[-1] <= event["ts"] + 1e-4:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 2e-3, event
        open_until.append(end)


def test_slices_nest(tmp_path: Path) -> None:
    path = attend(2).timeline(tmp_path / "trace.json")
    found = slices(path.read_text(encoding="utf-8"))
    assert {event["cat"] for event in found} >= {"launch", "program", "label", "loop", "nest", "dot"}
    assert {event["cat"] for event in found} <= set(KINDS)
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in found)
    for track in {event["tid"] for event in found}:
        assert_nested([event for event in found if event["tid"] == track])
    assert sum(event["cat"] == "launch" and event["tid"] == 0 for event in found) == 2


def test_every_program_is_there_with_its_labels() -> None:
    found = slices(timeline_text(attend()))
    assert sorted(e["args"]["program"] for e in found if e["cat"] == "program") == [0, 1, 2]
    names = [e["name"] for e in found if e["cat"] == "label"]
    assert {name: names.count(name) for name in ("attention", "qk", "pv")} == {"attention": 3, "qk": 9, "pv": 9}
    assert {e["args"]["where"].split(":")[0] for e in found if e["cat"] == "dot"} == {"kernels.py"}


def test_threads_have_tracks() -> None:
    kernel = pto.jit(num_threads=2)(add.function)
    x = np.ones(1 << 20, np.float32)
    out = np.zeros_like(x)
    with pto.profile() as prof:
        for _ in range(20):
            kernel[1024](x, x, out, BLOCK=1024)
    whole = json.loads(timeline_text(prof))
    names = {e["tid"]: e["args"]["name"] for e in whole["traceEvents"] if e["name"] == "thread_name"}
    assert names[0] == "caller 0"
    assert set(names.values()) <= {"caller 0", "worker 1"}
    assert {e["tid"] for e in whole["traceEvents"] if e["ph"] == "X"} == names.keys()


def made(end: int = 900) -> Profile:
    """A profile of one launch with times of our choice."""
    spot = Loc("nowhere.py", 7)
    sites = (Site("program", -1), Site("loop", 0, ("a",), (spot,)), Site("nest", 1, ("a/b",), (spot,)),
             Site("nest", 1, ("a/b", "a/c"), (spot,)))  # fmt: skip
    events = [[3, 0, 700, 790], [2, 0, 500, 690], [1, 0, 400, 800], [0, 0, 300, end]]
    prof = pto.profile()
    prof.launches.append(Launch("made", (1, 1, 1), 1, 200, 1000, sites, [np.array(events)], 5, 9))
    return prof


def test_the_same_times_give_the_same_text() -> None:
    text = timeline_text(made())
    assert text == timeline_text(made())
    assert [(e["cat"], e["name"], e["ts"], e["dur"]) for e in slices(text)] == [
        ("launch", "made", 0.2, 1.0), ("program", "program 0", 0.3, 0.6), ("label", "a", 0.4, 0.4),
        ("loop", "7: ", 0.4, 0.4), ("label", "b", 0.5, 0.19), ("nest", "7: ", 0.5, 0.19),
        ("label", "b + c", 0.7, 0.09), ("nest", "7: ", 0.7, 0.09)]  # fmt: skip


@pytest.mark.parametrize("end", [300, 900, 5000])
def test_an_unsteady_clock_leaves_no_slice_outside_its_launch(end: int) -> None:
    assert max(e["ts"] + e["dur"] for e in slices(timeline_text(made(end)))) <= 1.2 + 1e-9


def test_what_was_dropped_is_said() -> None:
    x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    with pto.profile(limit=10) as prof:
        add[100](x, x, out, BLOCK=10)
    assert prof.dropped["events"] > 100
    assert json.loads(timeline_text(prof))["otherData"]["dropped_events"] == prof.dropped["events"]


def test_interpreted_launches_are_on_it() -> None:
    x, out = np.ones(10, np.float32), np.zeros(10, np.float32)
    with pto.profile() as prof, pto.interpreter():
        add[1](x, x, out, BLOCK=10)
    assert [(e["cat"], e["name"], e["tid"]) for e in slices(timeline_text(prof))] == [("launch", "add", 0)]
