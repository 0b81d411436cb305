"""Tuples of arrays, numbers and constants as arguments of kernels, compiled and interpreted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import pypto as pto
from pypto.errors.launch import ReadOnlyArgument, WrongArguments

BOTH = pytest.mark.parametrize("run", [lambda k: k, pto.interpret], ids=["compiled", "interpreted"])


class Job(NamedTuple):
    x: Any
    scale: Any
    block: pto.constexpr = 4


@pto.jit
def work(jobs, out, extra):
    for n in pto.static_range(len(jobs)):
        job = jobs[n]
        i = pto.arange(0, job.block)
        t = pto.load(job.x + i, mask=i < job.x.shape[0]) * job.scale
        if extra[1] is not None:
            t += pto.load(extra[1])
        pto.store(out + n * 4 + i, t, mask=i < extra[0])


@BOTH
def test_nested_tuples(run: Any) -> None:
    kernel, a, b = run(work), np.arange(4, dtype=np.float32), np.ones(3, np.float64)
    for scale in (2.0, 3.0):
        out = np.zeros(8)
        kernel[1]((Job(a, scale), Job(b, 5)), out, (4, None))
        assert out.tolist() == [0, scale, 2 * scale, 3 * scale, 5, 5, 5, 0]
    kernel[1]((Job(b, 2, block=3),), out, (np.int64(2), np.asarray(10.0)))
    assert out.tolist()[:4] == [12, 12, 6, 9]


def test_versions_depend_on_what_is_inside() -> None:
    kernel = pto.jit(work.function)
    a, out = np.ones(4, np.float32), np.zeros(8)
    other = Job(a.astype(np.int8), 2.0)
    for first in (Job(a, 2.0), Job(a, 3.0), Job(a, 2), Job(a, pto.constexpr(2.0)), Job(a, 2.0, 3), other):
        kernel[1]((first,), out, (4, None))
    assert len(kernel.specializations) == 5
    types = dict(kernel.specializations[0].types)
    assert types["jobs"] == "((array<f32, 1>, f32, 4))" and types["extra"] == "(i32, None)"


def test_written_arrays_in_tuples_are_checked() -> None:
    @pto.jit
    def fill(pair):
        pto.store(pair[0], pair[1])

    x = np.zeros(1, np.float32)
    for _ in range(2):
        fill[1]((x, 5))
        x.flags.writeable = False
        with pytest.raises(ReadOnlyArgument):
            fill[1]((x, 6))
        x.flags.writeable = True
    assert x[0] == 5


def test_overlap_within_a_tuple_is_seen() -> None:
    @pto.jit
    def shift(pair):
        i = pto.arange(0, 8)
        pto.store(pair[0] + i, pto.load(pair[1] + i))

    x = np.arange(12, dtype=np.float32)
    shift[1]((x[:8].copy(), x[4:]))
    shift[1]((x[2:], x))
    assert x.tolist() == [0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 10, 11]


@pto.jit
def many(out, *values, K: pto.constexpr = 1):
    for n in pto.static_range(len(values)):
        pto.store(out + n, values[n] * K)


@BOTH
def test_any_number_of_arguments(run: Any) -> None:
    kernel, out = run(many), np.zeros(3, np.float32)
    kernel[1](out, 1, 2.5, np.int8(3), K=2)
    assert out.tolist() == [2, 5, 6]
    kernel[1](out)
    kernel[1](out, 9)
    assert out.tolist() == [9, 5, 6]
    with pytest.raises(WrongArguments, match="missing `out`"):
        kernel[1](K=2)


@pto.aggregate
class Window:
    x: pto.tensor
    start: pto.tensor
    size: pto.constexpr

    @pto.jit
    def read(self):
        return pto.load(self.x + self.start + pto.arange(0, self.size))


@pto.jit
def read(w, out):
    pto.store(out + pto.arange(0, w.size), w.read())


@BOTH
def test_aggregates(run: Any) -> None:
    x, out = np.arange(9, dtype=np.int32), np.zeros(4, np.int32)
    for start in (1, 3, 5):
        run(read)[1](Window(x, start, 4), out)
        assert out.tolist() == list(range(start, start + 4))


class Two:
    """Any object may say which tuple it is."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def as_argument(self) -> Any:
        return self.items


def test_objects_that_stand_for_tuples() -> None:
    @pto.jit
    def kernel(pair):
        pto.store(pair[0], pair[1])

    out = np.zeros(1, np.int32)
    for n in (3, 4):
        kernel[1](Two(out, n))
        assert out[0] == n
    assert len(kernel.specializations) == 1


@pto.aggregate
class Line:
    low: pto.tensor
    step: pto.constexpr = 2

    def end(self):
        return self.low + self.step


@pto.aggregate
class Named(Line):
    """An aggregate with the fields and the methods of another one."""

    bias: pto.tensor = 10

    def end(self):
        return self.low + self.step + self.bias


@pto.jit
def ends(out, a, b):
    changed = pto.aggregate_replace(b, low=a.low * 100)
    pto.store(out, a.end())
    pto.store(out + 1, b.end())
    pto.store(out + 2, changed.end())
    pto.store(out + 3, Named(1, bias=2).end())


@BOTH
def test_inheritance_and_replaced_fields(run: Any) -> None:
    out = np.zeros(4, np.int32)
    run(ends)[1](out, Line(1), Named(2, 3, 4))
    assert out.tolist() == [3, 9, 107, 5]
    assert pto.aggregate_replace(Named(2), bias=5) == Named(2, 2, 5)
    with pytest.raises(TypeError, match="Named has no field 'high'; its fields are low, step, bias"):
        pto.aggregate_replace(Named(2), high=5)
    with pytest.raises(TypeError, match="expects an aggregate instance"):
        pto.aggregate_replace(5, high=5)
