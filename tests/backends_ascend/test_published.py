"""The timing model against published times, the page that lists them, and what each of its rules is for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.timing import prediction
from pypto.backends.ascend.timing.l2 import evicted_part
from pypto.backends.ascend.timing.prediction import predict
from pypto.backends.ascend.timing.rates import RATES_OF
from tests.backends_ascend.copy_ladder import LADDER, Copies, kernel
from tests.backends_ascend.published import FITTED, PAGE, Point, points

POINTS = {point.name: point for point in points()}
SLOW = [name for name in POINTS if "half of A" in name or "constant tiling" in name or "unit flags" in name]
FAR = {f"product of 8192³ by hand, {name}" for name in
       ("one core, 128 x 256 x 64", "24 cores, 2 by 12", "24 cores, 4 by 6")}  # fmt: skip


def listed() -> Mapping[str, tuple[float, ...]]:
    """What the page says: for each point its published and predicted time, and the error in percent."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {cells[0]: tuple(float(x.strip("%")) for x in cells[1:4]) for cells in rows if cells[0] in POINTS}


@pytest.mark.parametrize("point", [pytest.param(p, marks=[pytest.mark.slow] * (p.name in SLOW), id=p.name)
                                   for p in POINTS.values()])  # fmt: skip
def test_each_point_is_as_far_off_as_the_page_says(point: Point) -> None:
    published, us, error = listed()[point.name]
    found = point.predicted()
    assert published == pytest.approx(point.published, abs=0.06)
    assert us == pytest.approx(found, rel=2e-3)
    assert error == pytest.approx(100 * (found / point.published - 1), abs=0.2)
    assert abs(error) <= (28 if point.name in FAR else 15)


def test_points_that_no_constant_is_fitted_to() -> None:
    held_out = [name for name in POINTS if name not in FITTED]
    assert set(listed()) == set(POINTS)
    assert set(FITTED) <= set(POINTS)
    assert f"Of these {len(held_out)} points, {len(held_out) - len(FAR)} are within 15 %." in (
        " ".join(PAGE.read_text(encoding="utf-8").split())
    )
    assert len(held_out) - len(FAR) >= 10


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unaligned rows to UB": ({"sector": 0}, "910b1, GM to UB, 64 x 2 KB, pitch unaligned"),
    "unaligned rows to L1": ({"sector": 0}, "910b1, GM to L1, 64 x 512 bytes, pitch unaligned"),
    "small copies": ({"least": 0.0}, "910b1, GM to UB, 128 bytes"),
    "one place, vector cores": ({"same_place_vector": math.inf}, "910b1, GM to UB, all cores in one order"),
    "one place, cube cores": ({"same_place": math.inf}, "910b1, GM to L1, all cores in one order"),
    "short rows past L2": ({"short_run": 0.0}, "910b1, GM to UB, cores staggered"),
    "one place in L2": ({"same_in_l2": math.inf}, "product of 6144³ in order"),
    "a core's rate where L2 hits": ({"from_l2": 32.0}, "910b1, GM to L1, each quarter four times"),
    "a core's rate where L2 misses": ({"from_hbm": 110.0}, "add, 910b1, one core, 8 KB"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_point_is_missed_without_the_rule_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, point = BROKEN[name]
    broken = {arch: replace(rates, **changed) for arch, rates in RATES_OF.items()}
    assert abs(POINTS[point].error) < 0.15
    monkeypatch.setattr(prediction, "RATES_OF", MappingProxyType(broken))
    assert abs(POINTS[point].error) > 0.15


@pytest.mark.parametrize(("megabytes", "hit"), [(1024, 0.75), (192, 0.0)])
def test_l2_holds_so_much(megabytes: int, hit: float) -> None:
    """302 MB go round four times: what is least recently used has left before it comes again, unless all fits."""
    copies = next(c for c in LADDER if c.label == "910b1, GM to UB, all four times")
    target = replace(ascend_target("ascend910b1"), l2_bytes=megabytes << 20)
    found = predict(kernel(copies), target, {}, (48, 1, 1), 48)
    assert 1 - found.levels["HBM"] / found.bytes["GM read"] == pytest.approx(hit, abs=0.01)


@pytest.mark.parametrize(("staggered", "slower"), [(False, True), (True, False)])
def test_cores_at_one_place_wait_only_at_the_same_time(staggered: bool, slower: bool) -> None:
    copies = Copies("", 1.0, "UB", (128, 64), 48, shape=(6144, 512), all_rows=True, staggered=staggered)
    seconds = predict(kernel(copies), ascend_target("ascend910b1"), {}, (48, 1, 1), 48).seconds
    assert (seconds > 400e-6) == slower


def test_what_leaves_a_full_cache() -> None:
    """m = 1 - exp(-m * fill), against bytes that replace one another at random."""
    assert evicted_part(0.5) == evicted_part(1.0) == 0
    places, fill = 4000, 1.5
    rng, held, missed = np.random.default_rng(0), set(range(places)), 0
    slots = list(range(places))
    for _ in range(20):
        missed = 0
        for byte in range(int(places * fill)):
            if byte in held:
                continue
            missed += 1
            slot = int(rng.integers(places))
            held.discard(slots[slot])
            slots[slot] = byte
            held.add(byte)
    assert evicted_part(fill) == pytest.approx(missed / (places * fill), abs=0.03)
