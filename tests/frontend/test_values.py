"""Tuples, named tuples, aggregates and constants as values of the language."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import pypto.language as pto
from pypto.errors.frontend import AssignTarget, MaybeUnassigned, MissingArgument, NoAttribute, TooDeep, TypeClash
from pypto.frontend import ConstSpec
from pypto.ir.types import int32, scalar
from tests.frontend.evaluate import run as evaluated

I32 = scalar(int32)


def run(kernel: Any, count: int, **args: Any) -> list[int]:
    out = np.zeros(count, np.int32)
    evaluated(kernel, out=out, **args)
    return out.tolist()


class Point(NamedTuple):
    x: Any
    y: Any = 3

    def total(self) -> Any:
        return self.x + self.y

    @property
    def product(self) -> Any:
        return self.x * self.y

    @staticmethod
    def twice(a: Any) -> Any:
        return Point(a, a)

    @classmethod
    def next(cls, a: Any) -> Any:
        return cls(a, y=a + 1)


def test_named_tuples_are_made_and_have_methods() -> None:
    def kernel(out, n):
        p = Point(n)
        for i in range(3):
            p = Point(p.x + i, y=p.y)
        out[0] = p.total()
        out[1] = p.product
        out[2] = Point.twice(n).total() + p.next(n).y
        out[3] = isinstance(p, Point) and not isinstance((n, n), Point)

    assert run(kernel, 4, n=4) == [10, 21, 13, 1]


@pto.aggregate
class Counter:
    total: pto.tensor
    step: pto.constexpr
    limit: Any = 100

    def add(self, n):
        return Counter(self.total + n * self.step, self.step, self.limit)

    @property
    def left(self):
        return self.limit - self.total


def test_aggregates_are_carried_by_branches_and_loops() -> None:
    def kernel(out, n):
        c = Counter(0, step=2)
        for i in range(n):
            if i % 2 == 0:
                c = c.add(i)
            else:
                c = c.add(-2)
                c = c.add(1)
        while c.left < 99:
            c = Counter(c.total - 1, c.step, c.limit)
        out[0] = c.total
        out[1] = c.step + len(c)

    assert run(kernel, 2, n=6) == [1, 5]


@pto.aggregate
class Span:
    low: pto.tensor
    width: pto.tensor

    def __init__(self, a, b, at_least: pto.constexpr = 0):
        self.low = a
        if a > b:
            self.low = b
            self.width = a - b
        else:
            self.width = b - a
        if at_least > 0:
            self.width = pto.maximum(self.width, at_least)


def test_an_init_of_its_own() -> None:
    def kernel(out, n):
        s, t = Span(n, 2), Span(1, n, at_least=9)
        out[0] = s.low * 10 + s.width
        out[1] = t.low * 10 + t.width

    assert run(kernel, 2, n=5) == [23, 19]


class Draft:
    def __init__(self, a, b):
        self.low, self.width = min(a, b), abs(a - b)


def test_outside_of_kernels_they_are_tuples_with_names() -> None:
    assert Counter(1, 2) == (1, 2, 100)
    assert Counter(1, 2).left == 99
    assert repr(Counter(1, step=2)) == "Counter(total=1, step=2, limit=100)"
    made = pto.aggregate(type("Made", (Draft,), {"__annotations__": {"low": int, "width": int}}))(5, 3)
    assert (made.low, made.width) == (3, 2)
    with pytest.raises(TypeError, match=r"`__init__` of Less must assign every field; it left out other"):
        pto.aggregate(type("Less", (Draft,), {"__annotations__": {"low": int, "width": int, "other": int}}))(5, 3)
    with pytest.raises(TypeError, match="fields without a default stand before those with one"):
        pto.aggregate(type("Order", (), {"__annotations__": {"a": int, "b": int}, "a": 1}))


@pto.aggregate
class Partly:
    a: pto.tensor
    b: pto.tensor

    def __init__(self, n):
        self.a = n
        if n > 3:
            self.b = n


def test_mistakes_in_aggregates() -> None:
    def partly(out, n):
        out[0] = Partly(n).a

    def changes(out, n):
        c = Counter(n, 1)
        c.total = 3

    def lacks(out, n):
        out[0] = Counter(n).total

    def unknown(out, n):
        out[0] = Counter(n, 1).totl

    def mixes(out, n):
        p = Point(n, n)
        if n > 2:
            p = Span(n, n)
        out[0] = p[0]

    for kernel, error, text in (
        (partly, TypeClash, "a tuple of 2"), (changes, AssignTarget, "an attribute"),
        (lacks, MissingArgument, "misses its argument `step`"), (unknown, NoAttribute, "did you mean"),
        (mixes, TypeClash, "a tuple of 2 on one path"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            run(kernel, 1, n=5)


@pto.aggregate
class Never:
    a: pto.tensor
    b: pto.tensor

    def __init__(self, n):
        self.a = n


def test_a_field_that_is_never_assigned() -> None:
    def kernel(out, n):
        out[0] = Never(n).a

    with pytest.raises(MaybeUnassigned, match=r"`Never\.b` may be unassigned here"):
        run(kernel, 1, n=5)


def test_comprehensions_are_tuples() -> None:
    def kernel(out, n):
        t = [v * 2 for v in (1, n, 3)]
        pairs = tuple(a * b for a in (1, 2) for b in range(3) if b != a)
        out[0] = t[0] + t[1] + t[2]
        out[1] = len(pairs) * 100 + pairs[3]
        out[2] = sum([x for x in range(4)])  # noqa: C416, RUF100

    assert run(kernel, 3, n=5) == [18, 402, 6]


BLOCK = pto.constexpr(4)
SIZES = (pto.constexpr(2), 3)


def test_constants_of_old_kernels() -> None:
    def kernel(out, n, m: pto.constexpr):
        size: pto.constexpr = BLOCK * 2 + SIZES[0]
        out[0] = size + BLOCK.value + m.value
        out[1] = pto.constexpr(3) + n
        pto.static_assert(isinstance(size, pto.constexpr) and isinstance(size, int))
        pto.static_assert(isinstance(n, pto.tensor) and not isinstance(n, pto.constexpr | int))

    assert run(kernel, 2, n=5, m=ConstSpec(pto.constexpr(7))) == [21, 8]


def test_constants_on_the_host() -> None:
    two = pto.constexpr(2)
    assert (two * 3 + 1).value == 7 and (1 - two).value == -1 and (7 // two).value == 3 and (-two).value == -2
    assert two == 2 and two < 3 and not (two != 2).value and two in {2: 1} and list(range(two)) == [0, 1]
    assert float(pto.constexpr(1.5)) == 1.5 and len(pto.constexpr((1, 2))) == 2 and pto.constexpr((1, 2))[1].value == 2
    assert not pto.constexpr(0) and pto.constexpr(abs)(-3) == 3 and pto.constexpr(two).value == 2
    assert repr(two) == "pto.constexpr(2)"


@pto.constexpr_function
def digits(n, base=10):
    return [] if base < 2 else pto.constexpr(len(np.base_repr(n, base)))


def test_functions_of_the_host_on_constants() -> None:
    def kernel(out, n):
        out[0] = digits(1000) * 100 + digits(8, base=2)

    assert run(kernel, 1, n=1) == [404]
    assert digits(8, 2) == 4 and digits.__name__ == "digits"


def test_what_is_recursive_ends_at_compile_time() -> None:
    def power(x, k: pto.constexpr):
        return 1 if k == 0 else x * power(x, k - 1)

    def kernel(out, n, depth: pto.constexpr):
        out[0] = power(n, depth)

    assert run(kernel, 1, n=1, depth=ConstSpec(45)) == [1]
    with pytest.raises(TooDeep):
        run(kernel, 1, n=1, depth=ConstSpec(2000))


def test_numbers_have_what_tiles_have() -> None:
    def kernel(out, n):
        i = 3
        out[0] = i.to(pto.int64) + 2
        for j in pto.static_range(2):
            out[1 + j] = j.to(pto.float32) + 0.5 if j else i.dtype == pto.int32

    assert run(kernel, 3, n=1) == [5, 1, 1]


def test_pointers_meet_where_arrays_are() -> None:
    def kernel(out, n):
        p = out
        for _ in range(n):
            pto.store(p, n)
            p += 1
        q = out if n > 9 else p
        pto.store(q, 7)
        r = out
        if n > 2:
            r = out + 4
            n += 1
        pto.store(r, n + 4)

    assert run(kernel, 5, n=3) == [3, 3, 3, 7, 8]


def test_nested_arguments_become_arguments_of_their_own() -> None:
    def kernel(out, pair, deep):
        (a, b), c = deep
        out[0] = pair.x * 1000 + pair.y * 100 + a * 10 + c
        pto.static_assert(b is None)

    from tests.frontend.evaluate import built, evaluate

    deep = ((I32, ConstSpec(None)), I32)
    function = built(kernel, out=np.zeros(1, np.int32), pair=Point(I32, ConstSpec(2)), deep=deep).function
    assert [v.hint for v in function.args] == ["out", "pair.0", "deep.0.0", "deep.1"]
    out = np.zeros(1, np.int32)
    evaluate(built(kernel, out=out, pair=Point(I32, ConstSpec(2)), deep=deep).function, [out, 1, 3, 4])
    assert out[0] == 1234
