"""Which versions of a kernel are compiled, why, and when they are used again."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.launch import NeedsShape, ReadOnlyArgument


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def fresh(function: Any) -> Any:
    """A kernel of its own, that nothing was compiled for."""
    return pto.jit(function)


def add(x, y, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    pto.store(out + offs, pto.load(x + offs, mask=mask) + pto.load(y + offs, mask=mask), mask=mask)


def rows(x, out):
    i = pto.program_id(0)
    out[i] = pto.sum(x[i, :])


def test_what_a_kernel_does_not_read_recompiles_nothing() -> None:
    kernel = fresh(add)
    for size in (5, 6, 7, 8, 100):
        out = np.zeros(size, np.float32)
        kernel[2](ones(size), ones(size), out, size, BLOCK=64)
        assert out.tolist() == [2] * size
    assert len(kernel.specializations) == 1


def test_types_and_constants_do() -> None:
    kernel = fresh(add)
    for block in (64, 128, 64):
        for kind in (np.float32, np.float64):
            out = np.zeros(4, kind)
            kernel[1](out + 1, out + 2, out, 4, BLOCK=block)
            assert out.tolist() == [3] * 4
    assert [dict(s.types)["BLOCK"] for s in kernel.specializations] == ["64", "64", "128", "128"]
    assert {dict(s.types)["x"] for s in kernel.specializations} == {"array<f32, 1>", "array<f64, 1>"}
    assert {s.reason for s in kernel.specializations} == {"first call with these types"}


def test_compile_gives_the_version_and_runs_nothing() -> None:
    kernel = fresh(add)
    out = np.zeros(4, np.float32)
    made = kernel.compile(ones(4), ones(4), out, 4, BLOCK=64)
    assert not out.any()
    assert kernel.specializations == [made]
    assert made.timings.keys() >= {"cache", "load"}
    kernel[1](ones(4), ones(4), out, 4, BLOCK=64)
    assert kernel.specializations == [made] and out.any()
    assert kernel.compile(ones(4), ones(4), out, 3, BLOCK=64) is made


STAGES = "frontend verify prepare optimize codegen llvm_parse llvm_optimize llvm_emit cache load"


@pytest.mark.parametrize("collecting", [True, False])
def test_stages_of_a_compilation(collecting: bool, request: pytest.FixtureRequest) -> None:
    """Every stage is timed once, and the garbage collector is what it was."""
    own = 771 + collecting + 2 * ("native" in request.node.name)  # so that the disk cache has not got it
    (gc.enable if collecting else gc.disable)()
    try:
        made = fresh(add).compile(ones(4), ones(4), ones(4), 4, BLOCK=own)
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
    assert made.timings.keys() == {*STAGES.split()}
    assert all(seconds > 0 for seconds in made.timings.values())


def test_a_size_that_is_read_is_part_of_the_version() -> None:
    kernel = fresh(rows)
    for size, versions in ((3, 1), (4, 2), (3, 2), (5, 3)):
        out = np.zeros(2, np.float32)
        kernel[2](ones(2, size), out)
        assert out.tolist() == [size] * 2
        assert len(kernel.specializations) == versions
    assert kernel.specializations[1].reason == "changed: shape(x, 1) = 3 → 4"
    assert str(kernel.specializations[0]) == (
        "(x: array<f32, 2>, out: array<f32, 1>) with shape(x, 1) = 3, stride(out, 0) = 1, stride(x, 0) not 0 or 1, "
        "stride(x, 1) = 1; first call with these types"
    )
    assert repr(kernel.specializations[:1]) == f"[{kernel.specializations[0]}]"


def scaled(x, out):
    n = x.shape[0]
    for i in range(0, n, 4):
        out[i : i + 4] = x[i : i + 4] * n


def test_a_size_that_keeps_changing_becomes_a_run_time_value() -> None:
    kernel = fresh(scaled)
    for size in (3, 4, 5, 6, 7, 8):
        out = np.zeros(size, np.float32)
        kernel[1](ones(size), out)
        assert out.tolist() == [size] * size
    sizes = [s.guard.get(("shape", "x", 0)) for s in kernel.specializations]
    assert sizes == [3, 4, None]


def test_annotations_fix_the_choice() -> None:
    @pto.jit
    def fixed(x: pto.static, out):
        n = x.shape[0]
        out[0] = n

    @pto.jit
    def open_(x: pto.dynamic, out):
        n = x.shape[0]
        out[0] = n

    for size in (3, 4, 5, 6):
        out = np.zeros(1, np.int32)
        fixed[1](ones(size), out)
        assert out[0] == size
        open_[1](ones(size), out)
        assert out[0] == size
    assert len(fixed.specializations) == 4
    assert len(open_.specializations) == 1


def test_an_extent_cannot_be_dynamic() -> None:
    @pto.jit
    def kernel(x: pto.dynamic, out):
        out[0] = pto.sum(x[:])

    with pytest.raises(NeedsShape, match=r"annotated `pto\.dynamic`"):
        kernel[1](ones(3), np.zeros(1, np.float32))


def test_strides_of_one_are_known() -> None:
    kernel = fresh(rows)
    x = ones(4, 6)
    for view in (x, x[:, ::2], np.broadcast_to(x[:, :1], x.shape), x[::2]):
        out = np.zeros(len(view), np.float32)
        kernel[len(view)](view, out)
        np.testing.assert_array_equal(out, view.sum(axis=1))
    strides = [s.guard[("stride", "x", 1)] for s in kernel.specializations]
    assert strides == [1, None, 0]


def test_an_integer_that_is_one_is_known_where_it_multiplies() -> None:
    @pto.jit
    def pick(x, out, stride):
        offs = pto.arange(0, 4)
        pto.store(out + offs, pto.load(x + offs * stride))

    x = np.arange(16, dtype=np.float32)
    for stride in (1, 2, 3, 1):
        out = np.zeros(4, np.float32)
        pick[1](x, out, stride)
        assert out.tolist() == x[: 4 * stride : stride].tolist()
    assert [s.guard[("one", "stride", 0)] for s in pick.specializations] == [True, False]
    assert pick.specializations[1].reason == "changed: stride == 1 is True → False"


def test_overlapping_arrays_have_a_version_of_their_own() -> None:
    @pto.jit
    def shift(x, out):
        for i in range(6):
            out[i] = x[i] + 1

    kernel = shift
    memory = np.zeros(8, np.float32)
    apart = np.zeros(6, np.float32)
    kernel[1](memory[:6], apart)
    assert apart.tolist() == [1] * 6
    kernel[1](memory[:6], memory[1:7])
    assert memory.tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    assert [s.noalias for s in kernel.specializations] == [True, False]
    assert kernel.specializations[1].reason == "arrays overlap"
    kernel[1](memory[:6], apart)
    kernel[1](memory[2:8], memory[:6])
    assert len(kernel.specializations) == 2


def test_neighbours_do_not_overlap() -> None:
    kernel = fresh(add)
    memory = np.ones(12, np.float32)
    kernel[1](memory[:4], memory[4:8], memory[8:], 4, BLOCK=4)
    kernel[1](memory[4:8], memory[8:], memory[:4], 4, BLOCK=4)
    assert [s.noalias for s in kernel.specializations] == [True]
    kernel[1](memory[:4], memory[4:8], memory[7:11], 4, BLOCK=4)
    assert [s.noalias for s in kernel.specializations] == [True, False]


def test_arrays_that_are_only_read_may_overlap() -> None:
    kernel = fresh(add)
    x = ones(6)
    kernel[1](x[:4], x[1:5], np.zeros(4, np.float32), 4, BLOCK=4)
    kernel[1](x[:4], x[:4], np.zeros(4, np.float32), 4, BLOCK=4)
    assert [s.noalias for s in kernel.specializations] == [True]


def test_a_read_only_result_is_refused_before_anything_is_written() -> None:
    @pto.jit
    def both(x, first, second):
        first[:] = x[:]
        second[:] = x[:]

    first, second = np.zeros(3, np.float32), np.zeros(3, np.float32)
    second.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ReadOnlyArgument, match="both writes to `second`, which is read-only"):
            both[1](ones(3), first, second)
        assert not first.any()
    second.flags.writeable = True
    both[1](ones(3), first, second)
    second.flags.writeable = False
    with pytest.raises(ReadOnlyArgument):
        both[1](ones(3) * 2, first, second)
    assert first.tolist() == second.tolist() == [1, 1, 1]


def test_a_read_only_result_behind_a_pointer_of_a_loop() -> None:
    @pto.jit
    def fill(out, n):
        p = out + pto.arange(0, 4)
        for _ in range(n):
            pto.store(p, 7.0)
            p += 4

    out = np.zeros(8, np.float32)
    out.flags.writeable = False
    with pytest.raises(ReadOnlyArgument):
        fill[1](out, 2)
    assert not out.any()


def test_many_threads_launch_one_kernel() -> None:
    kernel = fresh(add)
    failures: list[Any] = []

    def work(size: int) -> None:
        for _ in range(50):
            out = np.zeros(size, np.float32)
            kernel[4](ones(size), ones(size) * size, out, size, BLOCK=16)
            if out.tolist() != [size + 1] * size:
                failures.append(out)

    threads = [threading.Thread(target=work, args=(size,)) for size in range(20, 28)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(kernel.specializations) == 1


def test_a_kernel_that_nobody_has_is_freed_with_its_code() -> None:
    """Also one that was interpreted, checked and launched with other options."""
    x, out = ones(4, 8), ones(4)
    kernel = fresh(rows)
    kernel[(4,)](x, out)
    kernel.run(x, out, grid=(4,), disable=("peeling",))
    pto.interpret(kernel)[(4,)](x, out)
    with pto.checked():
        kernel[(4,)](x, out)
    version = kernel.specializations[0]
    alive = [weakref.ref(x) for x in (kernel, version, version.program)]
    del kernel, version
    gc.collect()
    assert [found() for found in alive] == [None, None, None]
