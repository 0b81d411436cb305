"""Loop IR and LLVM text: golden schedules, the same text every time, chunks and masks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.codegen.tile_access import AccessEmitter
from pypto.backends.cpu.loopir.printer import print_schedule
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Writer
from pypto.ops.memory import Access
from tests.backends_cpu.lowering import fixed_target, lowered
from tests.conformance import kernels, networks
from tests.conformance.cases import Launch
from tests.conformance.running import make_launch, quick_part

GOLDEN = Path(__file__).with_name("golden")
SCHEDULES = ("softmax_native", "layer_norm", "matmul_native")


def softmax(columns: int) -> Launch:
    x = np.zeros((4, columns), np.float32)
    return Launch(networks.softmax_native, 4, {"x": x, "y": x.copy()}, {})


def loops(text: str) -> list[str]:
    """Text of the loops that have no loop inside, from the label of the body to that of the step."""
    lines = text.splitlines()
    starts = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"head(\d+):", line))}
    spans = []
    for number, start in starts.items():
        back = next(i for i, line in enumerate(lines) if i > start and line.strip() == f"br label %head{number}")
        spans.append((start, back))
    innermost = [(a, b) for a, b in spans if not any(a < c and d < b for c, d in spans)]
    return ["\n".join(lines[a:b]) for a, b in innermost]


def vector_sizes(text: str) -> Iterator[int]:
    """Bytes of every vector type in a text."""
    sizes = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
    for count, elem in re.findall(r"<(\d+) x (\w+)>", text):
        yield int(count) * sizes[elem]


@pytest.mark.parametrize("name", SCHEDULES)
def test_golden_schedules(name: str, update_golden: bool) -> None:
    file = GOLDEN / f"{name}.txt"
    text = print_schedule(lowered(make_launch(name)).schedule)
    if update_golden:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), "see the change with `git diff` after `pytest --update-golden`"


@pytest.mark.parametrize("name", quick_part(2))
def test_two_runs_give_one_text_and_no_tile_is_one_vector(name: str) -> None:
    """Chunks have a few registers' width, however large the tile is."""
    first, second = lowered(make_launch(name)), lowered(make_launch(name))
    assert first.text == second.text
    assert (first.abi, first.scratch_bytes) == (second.abi, second.scratch_bytes)
    assert print_schedule(first.schedule) == print_schedule(second.schedule)
    assert max(vector_sizes(first.text), default=0) <= 8 * fixed_target().vector_bytes


@pytest.mark.parametrize("columns", [1024, 1000, 1023])
def test_interior_of_softmax_is_unmasked(columns: int) -> None:
    """Loops over whole chunks have no masks; the rest, where there is one, is a single masked chunk after them."""
    text = lowered(softmax(columns)).text
    bodies = loops(text)
    assert bodies and any("load <" in body for body in bodies)
    assert not any("masked" in body for body in bodies)
    assert ("llvm.masked" in text) == (columns % 8 != 0)


def test_softmax_loads_its_row_in_whole_registers() -> None:
    text = lowered(softmax(1024)).text
    assert "<8 x float>" in text or "<16 x float>" in text
    assert "load float, ptr" not in "\n".join(loops(text))


def test_pointers_with_a_mask_have_an_unmasked_version() -> None:
    """Whether a block lies within the array is asked once, not for each chunk."""
    x = np.zeros(4096, np.float32)
    args = {"x": x, "y": x, "out": x.copy(), "n": 4096, "BLOCK": 1024}
    bodies = loops(lowered(Launch(kernels.add_pointers, 4, args, {})).text)
    assert any("masked" not in body and "load <" in body for body in bodies)


@pytest.mark.parametrize("name", ["embedding", "every_other"])
def test_slots_are_those_that_the_kernel_reads(name: str) -> None:
    launch = make_launch(name)
    slots = lowered(launch).abi
    assert len(set(slots)) == len(slots)
    assert {slot.arg for slot in slots} <= set(launch.arguments)
    assert not any(slot.arg.isupper() for slot in slots), "constants are in the code"


def test_shapes_that_are_never_asked_for_are_no_slots() -> None:
    slots = lowered(make_launch("add_pointers")).abi
    assert [(slot.kind, slot.arg) for slot in slots if slot.kind != "ptr"] == [("scalar", "n")]


@pto.jit
def wrapped(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(y + i, pto.load(x + i % n))


def test_what_lies_inside_of_an_array_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop without masks is for programs in which nothing wraps: the gather has no say in which one runs."""
    asked: list[Access] = []
    interior = AccessEmitter.all_in_bounds

    def ask(self: AccessEmitter, *accesses: Access) -> VectorValue | None:
        asked.extend(accesses)
        return interior(self, *accesses)

    monkeypatch.setattr(AccessEmitter, "all_in_bounds", ask)
    x = np.zeros(512, np.float32)
    text = lowered(Launch(wrapped, 4, {"x": x, "y": x.copy(), "n": 500, "BLOCK": 128}, {})).text
    assert asked and not any(access.base.shape for access in asked)
    inner = loops(text)
    assert any("masked.gather" in loop for loop in inner)
    assert any("load <" in loop and "gather" not in loop and "masked" not in loop for loop in inner)


def test_no_frame_computes_the_same_twice() -> None:
    writer = Writer()
    first = writer.raw("mul i64 %a, %b")
    with writer.frame() as inner:
        again, loaded = writer.raw("mul i64 %a, %b", 0), [writer.raw("load i64, ptr %p") for _ in range(2)]
    assert again == first
    assert len(set(loaded)) == len(inner.lines) == 2
    assert len(writer.frames[0].lines) == 1
