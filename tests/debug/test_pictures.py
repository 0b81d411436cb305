"""Pictures of a kernel on an Ascend core: every buffer at its address, every unit, and the lines that they are of."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.explain.levels import block_kernel
from pypto.compile import session
from pypto.debug.inspection import Inspection


@pto.jit
def scaled(x, y, factor):
    row = pto.program_id(0)
    t = pto.exp(x[row, :])
    y[row, :] = t * factor


@pto.jit
def product(a, b, c):
    c[:, :] = pto.maximum(pto.dot(a[:, :], b[:, :]), 0.0)


@pytest.fixture(scope="module", params=["vector", "cube"])
def case(request: pytest.FixtureRequest) -> tuple[Inspection, Any]:
    square = np.ones((64, 64), np.float16)
    calls = {"vector": (scaled, np.ones((8, 300), np.float32), np.ones((8, 300), np.float32), 2.5),
             "cube": (product, square, square, np.ones((64, 64), np.float32))}  # fmt: skip
    kernel, *args = calls[request.param]
    with session().devices.chip("ascend910b2"):
        program = kernel.compile(*args).program
        return kernel.inspect(*args), block_kernel(program.function, program.backend.target)


def shapes(svg: str) -> list[Any]:
    return list(ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect"))


def told(shape: Any) -> str:
    return str(shape[0].text)


def test_the_memory_plan_has_every_buffer_at_its_address(case: tuple[Inspection, Any]) -> None:
    found, block = case
    plan, _ = found.pictures
    buffers = {b.name: b for b in block.buffers}
    drawn = {told(s).partition(":")[0]: s for s in shapes(plan.svg)}
    assert drawn.keys() == buffers.keys()
    for name, shape in drawn.items():
        b = buffers[name]
        assert f"{b.bytes} bytes at {b.address}" in told(shape)
    for space in {b.space for b in block.buffers}:
        mine = sorted((b for b in block.buffers if b.space == space), key=lambda b: b.address)
        tops = [float(drawn[b.name].get("y")) + float(drawn[b.name].get("height")) for b in mine]
        assert tops == sorted(tops, reverse=True), "a higher address is further up"
    assert "of 183.8 KB" in plan.text or "L1" in plan.text


def test_the_timeline_has_the_units_and_their_lines(case: tuple[Inspection, Any]) -> None:
    found, block = case
    _, timeline = found.pictures
    names = {told(s).partition(",")[0] for s in shapes(timeline.svg)}
    assert names & {"DataCopyPad", "Exp", "Mmad", "DataCopy"}
    lines = {line.number for line in found.source}
    assert {int(s.get("data-line")) for s in shapes(timeline.svg)} & lines
    assert re.search(r"4 programs one after the other on one core of ascend910b2", timeline.text)
    units = set(re.findall(r"font-weight='600'>(\w+)", timeline.svg))
    assert units >= ({"MTE2", "V", "MTE3"} if block.kind == "vector" else {"MTE2", "M"})


def test_pictures_are_on_the_page_and_the_same_every_time(case: tuple[Inspection, Any]) -> None:
    found, _ = case
    page = found.html()
    for picture in found.pictures:
        assert f'data-level="{picture.name}" hidden' in page
        assert picture.svg in page
    assert page == found.html()


def test_kernels_of_the_cpu_have_none() -> None:
    x = np.ones((8, 300), np.float32)
    assert scaled.inspect(x, x.copy(), 2.5).pictures == ()
