"""Public names, builtins and functions that are written in the language."""

from __future__ import annotations

import ast
import enum
import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import pypto.language as pto
from pypto.errors.frontend import NoAttribute, OutsideKernel, TooManyIterations, TypeClash, UndefinedName
from pypto.frontend import ConstSpec, KernelSource
from pypto.frontend.build import HANDLERS
from pypto.ir.printer import print_function
from pypto.ops.table import ROWS
from tests.frontend.evaluate import built, run


def test_every_public_row_has_a_name_with_signature_and_text() -> None:
    for row in ROWS:
        if row.public:
            function = getattr(pto, row.name)
            assert {p.name for p in row.params} <= set(inspect.signature(function).parameters)
            assert row.doc in function.__doc__
            assert row.name in pto.__all__


def test_names_outside_of_a_kernel_say_so() -> None:
    with pytest.raises(OutsideKernel, match=r"pto\.maximum can be called inside a kernel only"):
        pto.maximum(1, 2)


def test_every_kind_of_syntax_is_handled_or_refused() -> None:
    kinds = {*ast.expr.__subclasses__(), *ast.stmt.__subclasses__()}
    unknown = {k.__name__ for k in kinds - HANDLERS.keys()}
    assert unknown <= {"TypeAlias", "TemplateStr", "Interpolation"}  # newer than the oldest Python


@pytest.mark.parametrize(("x", "y"), [(10, 4), (8, 4), (1, 7)])
def test_cdiv_in_python_and_in_a_kernel(x: int, y: int) -> None:
    def kernel(out, n, m: pto.constexpr):
        out[0] = pto.cdiv(n, m)

    out = np.zeros(1, np.int32)
    run(kernel, out=out, n=x, m=ConstSpec(y))
    assert out[0] == pto.cdiv(x, y) == -(-x // y)


def test_tiles_have_ops_and_functions_as_methods() -> None:
    def kernel(x, y):
        t = x[:].reshape(2, 4)
        t = t.T.trans().expand_dims(0)
        pto.static_assert(t.shape == (1, 2, 4) and t.dtype == pto.float32)
        s = t.to(pto.int32).sum(axis=2, keep_dims=True)
        y[:] = s.ravel() + t.max() + pto.zeros_like(s).ravel() + pto.full_like(s, 2).ravel()

    x, y = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    run(kernel, x=x, y=y)
    assert y.tolist() == [15, 31]


def test_builtins() -> None:
    def kernel(out, n):
        total = 0
        for i, (a, b) in enumerate(zip((n, 2, 3), (4, 5, 6))):  # noqa: B905
            total += a * b * i
        out[0] = total + len((1, 2)) + abs(n) + int(2.7)
        out[1] = max(n, 3) * 100 + min(n, 3, 2)
        out[2] = sum(reversed(range(4))) if isinstance("a", str) else 0

    out = np.zeros(3, np.int64)
    run(kernel, out=out, n=-4)
    assert out.tolist() == [-4 * 4 * 0 + 10 + 36 + 2 + 4 + 2, 296, 6]


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


@dataclass(frozen=True)
class Config:
    block: int
    mode: Mode


CONFIG = Config(4, Mode.EXACT)


def test_enums_and_frozen_dataclasses_are_constants() -> None:
    def kernel(out):
        t = pto.zeros((CONFIG.block,), pto.float32)
        if CONFIG.mode is Mode.EXACT:
            t = t + 1
        out[0 : CONFIG.block] = t

    out = np.zeros(4, np.float32)
    run(kernel, out=out)
    assert out.tolist() == [1, 1, 1, 1]


def test_constants_take_the_type_of_what_they_meet() -> None:
    def kernel(x, n, m: pto.constexpr):
        acc = 0
        count = 0.0
        for _ in range(n):
            acc += x[0:m]
            count += 1
        x[0:m] = acc * count

    x = np.asarray([1, 2], np.float16)
    function = built(kernel, x=x, n=3, m=ConstSpec(2)).function
    loop = next(op for op in function.walk() if op.name == "for")
    assert sorted(str(r.type) for r in loop.results) == ["f32", "tile<2xf16>"]


def test_a_variable_may_change_its_type_where_nothing_reads_it() -> None:
    def kernel(out, n):
        t = pto.zeros((4,), pto.float32)
        out[0] = t.sum()
        for i in range(n):
            t = i * 2
            out[1] = t
        if n > 1:
            t = 1
        out[2] = 5

    out = np.zeros(3, np.int32)
    run(kernel, out=out, n=2)
    assert out.tolist() == [0, 2, 5]


def test_a_loop_that_changes_a_type_names_both_assignments() -> None:
    def kernel(out, n):
        t = pto.float32
        for i in range(n):
            out[i] = pto.zeros((4,), t).sum()
            t = pto.float16

    with pytest.raises(TypeClash) as caught:
        built(kernel, out=np.zeros(1), n=1)
    assert caught.value.loc is not None
    lines = [caught.value.loc.line, caught.value.others[0][1].line]
    assert [n - kernel.__code__.co_firstlineno for n in lines] == [4, 1]


def test_nested_loops_are_not_built_exponentially_often(monkeypatch: pytest.MonkeyPatch) -> None:
    from pypto.frontend.carry import Carried

    count = 0
    build = Carried.build

    def counting(carried: Carried) -> Any:
        nonlocal count
        count += 1
        return build(carried)

    monkeypatch.setattr(Carried, "build", counting)

    def kernel(out, n):
        a = b = c = d = 0
        for _ in range(n):
            a += n
            for _ in range(n):
                b += a
                for _ in range(n):
                    c += b
                    for _ in range(n):
                        d += c
        out[0] = d

    built(kernel, out=np.zeros(1), n=1)
    assert count <= 20


def test_unrolling_is_bounded_over_nests() -> None:
    def kernel(n):
        for _ in pto.static_range(1000):
            for _ in pto.static_range(1000):
                pass

    with pytest.raises(TooManyIterations):
        built(kernel, n=1)


def test_a_local_function_reads_variables_when_it_is_called() -> None:
    def kernel(out, n):
        def scaled(v, *, by=n):
            return v * by + offset

        offset = 1
        out[0] = scaled(2)
        offset = 10
        out[1] = scaled(2, by=3)

    out = np.zeros(2, np.int32)
    run(kernel, out=out, n=5)
    assert out.tolist() == [11, 16]


def test_an_inlined_function_keeps_its_variables() -> None:
    def inner(v):
        hidden = v + 1
        return hidden

    def kernel(out, n):
        out[0] = inner(n)
        out[1] = hidden  # noqa: F821

    with pytest.raises(UndefinedName):
        built(kernel, out=np.zeros(2), n=1)


def test_prints_and_assertions_become_ops(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(out, n):
        print("n is", n, "and", n + 1)
        assert n > 0, f"n must be positive, not {'this'}"
        breakpoint()
        pto.static_print("built for", out.dtype)

    ops = [(op.name, dict(op.attrs)) for op in built(kernel, out=np.zeros(1, np.float32), n=1).function.walk()]
    assert [x for x in ops if x[0].endswith("_")] == [
        ("print_", {"prefix": "n is", "hex": False}), ("print_", {"prefix": "and", "hex": False}),
        ("assert_", {"message": "n must be positive, not this", "wraps": ""}), ("breakpoint_", {}),
    ]  # fmt: skip
    assert capsys.readouterr().out == "built for f32\n"


@pytest.mark.parametrize(("n", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (1000, 1024)])
def test_next_power_of_2_in_python_and_in_a_kernel(n: int, power: int) -> None:
    def kernel(out, n: pto.constexpr):
        out[0] = pto.zeros((pto.next_power_of_2(n),), pto.int32).shape[0]

    out = np.zeros(1, np.int32)
    run(kernel, out=out, n=ConstSpec(n))
    assert out[0] == pto.next_power_of_2(n) == power


def test_swizzle2d_visits_every_block_once() -> None:
    def kernel(out):
        for i in range(5):
            for j in range(4):
                a, b = pto.swizzle2d(i, j, 5, 4, 2)
                out[i * 4 + j] = a * 4 + b

    out = np.zeros(20, np.int32)
    run(kernel, out=out)
    assert sorted(out) == list(range(20))
    assert out[:4].tolist() == [0, 4, 1, 5]


class Jit:
    """Like a compiled kernel: an object with the source of its function."""

    def __init__(self, function: Any) -> None:
        self.kernel_source = KernelSource.of(function)


def doubled(v, times=2):
    return v * times


KERNEL = Jit(doubled)


def test_kernels_call_kernels() -> None:
    def kernel(out, n):
        out[0] = KERNEL(n) + KERNEL(n, times=5)

    out = np.zeros(1, np.int32)
    run(kernel, out=out, n=3)
    assert out.tolist() == [21]


class Pair(NamedTuple):
    low: Any
    high: Any


def test_named_tuples_keep_their_names_in_loops() -> None:
    def kernel(out, n, start: pto.constexpr):
        pair = start
        for i in range(n):
            pair = (pair.high, pair.low + i) if i == 1 else (pair[0] + 1, pair[1] + 2)
        out[0] = pair[0] * 100 + pair[1]

    out = np.zeros(1, np.int32)
    with pytest.raises(NoAttribute, match="a tuple of 2"):
        run(kernel, out=out, n=3, start=ConstSpec((1, 2)))
    run(kernel, out=out, n=3, start=ConstSpec(Pair(1, 2)))
    assert out.tolist() == [505]


def test_a_program_is_built_alike_every_time() -> None:
    def kernel(out, n):
        a = b = c = 0
        while a < n:
            a, b, c = a + 1, c, b + n
        out[0] = c

    texts = {print_function(built(kernel, out=np.zeros(1), n=1).function) for _ in range(3)}
    assert len(texts) == 1
