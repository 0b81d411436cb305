"""The blocking of matrix products: what is chosen, what a user may set, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import pypto as pto
from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.gemm.blocking import choose_blocking
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from pypto.backends.cpu.pipeline import coarsen
from pypto.blocking import Blocking
from pypto.debug.explain import explain
from pypto.debug.inspection import inspect
from pypto.errors import Diagnostic
from pypto.errors.launch import WrongBlocking
from pypto.ir.core import Op
from pypto.passes.target_facts import with_overrides
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.backends_cpu.test_words import WIDE
from tests.conformance.cases import Launch

SIZES = {"BM": 48, "BN": 64, "BK": 32}


def product(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), c.dtype)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


def arrays(m: int = 96, n: int = 128, k: int = 512) -> dict[str, Any]:
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}


def launch(**options: Any) -> Launch:
    return Launch(pto.jit(**options)(product), (2, 2), {**arrays(), **SIZES}, {})


def dots() -> list[Op]:
    return [op for op in optimized(launch()).walk() if op.name == "dot"]


def blocking(found: Launch, target: Any) -> Blocking:
    items = [item for item in walk(lowered(found, target).schedule.items) if isinstance(item, Gemm)]
    return items[-1].blocking


def test_what_is_chosen() -> None:
    known = {"mc": 48, "nc": 64, "k_unroll": 4, "panel_prefetch": 1536, "pack_prefetch": 4}
    assert blocking(launch(), fixed_target()) == Blocking(mr=6, nr=16, kc=512, **known)
    assert blocking(launch(), WIDE) == Blocking(mr=6, nr=64, kc=512, **known)


@pytest.mark.parametrize(
    "chosen",
    [
        Blocking(mr=1),
        Blocking(mr=2, nr=16),
        Blocking(nr=16),
        Blocking(kc=16),
        Blocking(kc=128, k_unroll=8),
        Blocking(mr=2, k_unroll=1, panel_prefetch=256, pack_prefetch=2),
        Blocking(mc=8, nc=4096),
    ],
    ids=str,
)
def test_a_user_may_set_it(chosen: Blocking) -> None:
    """What is set is used, and every result is exact, with remainders in all directions."""
    used = dict(blocking(launch(blocking=chosen), fixed_target()).overrides)
    assert all(used[name] == value for name, value in chosen.overrides if name not in ("mc", "nc"))
    for sizes in ((96, 128, 512), (67, 75, 49)):
        given = arrays(*sizes)
        grid = -(-sizes[0] // SIZES["BM"]), -(-sizes[1] // SIZES["BN"])
        pto.jit(blocking=chosen)(product)[grid](*given.values(), **SIZES)
        np.testing.assert_array_equal(given["c"], given["a"] @ given["b"])


def test_rows_alone_make_the_panel_narrower() -> None:
    assert blocking(launch(blocking=Blocking(mr=12)), WIDE).nr == 32


def test_rows_up_to_which_b_is_read_in_place() -> None:
    """More rows than the compiler would choose run in the kernel for few rows, its unrolling and height as set."""
    given = arrays(m=24, n=70, k=130)
    sizes = {"BM": 24, "BN": 80, "BK": 26}
    for chosen, used in ((Blocking(), False), (Blocking(skinny_rows=24, mr=3, k_unroll=2), True)):
        kernel = pto.jit(blocking=chosen)(product)
        text = lowered(Launch(kernel, (1, 1), {**given, **sizes}, {}), fixed_target()).text
        assert ("@stream_f32_24" in text) == used
        found = np.zeros_like(given["c"])
        kernel[1, 1](given["a"], given["b"], found, **sizes)
        np.testing.assert_array_equal(found, given["a"] @ given["b"])


def test_bytes_of_panels_that_stay() -> None:
    caches = []
    for chosen in (Blocking(), Blocking(panel_cache=16 << 10), Blocking(panel_cache=1)):
        found = lowered(launch(blocking=chosen), fixed_target()).schedule.items
        (gemm,) = (item for item in walk(found) if isinstance(item, Gemm))
        caches.append(gemm.panel_cache.slots if gemm.panel_cache is not None else 0)
        given = arrays()
        pto.jit(blocking=chosen)(product)[2, 2](*given.values(), **SIZES)
        np.testing.assert_array_equal(given["c"], given["a"] @ given["b"])
    assert caches[0] > caches[1] >= caches[2] == 0


def test_distance_of_prefetches_from_streams() -> None:
    def add(x, y, BLOCK: pto.constexpr):
        for i in range(0, x.shape[0], BLOCK):
            y[i : i + BLOCK] = x[i : i + BLOCK] + 1.0

    x = np.zeros(1 << 14, np.float32)
    texts = [
        lowered(Launch(pto.jit(blocking=chosen)(add), (1,), {"x": x, "y": x.copy(), "BLOCK": 1024}, {})).text
        for chosen in (Blocking(), Blocking(stream_prefetch=2048), Blocking(stream_prefetch=512))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_what_is_not_set_changes_nothing() -> None:
    assert lowered(launch(blocking=Blocking())).text == lowered(launch()).text
    assert lowered(launch(blocking=Blocking(mr=4))).text != lowered(launch()).text


def test_programs_are_coarsened_to_what_is_set() -> None:
    few = {**arrays(m=4), "BM": 4, "BN": 16, "BK": 32}
    factors = []
    for chosen in (Blocking(), Blocking(nc=64), Blocking(nc=16)):
        kernel = pto.jit(blocking=chosen)(product)
        function = optimized(Launch(kernel, (1, 8), few, {}))
        factors.append(coarsen(function, with_overrides(fixed_target(), function))[0].programs.factor)
        found = np.zeros_like(few["c"])
        kernel[1, 8](few["a"], few["b"], found, BM=4, BN=16, BK=32)
        np.testing.assert_array_equal(found, few["a"] @ few["b"])
    assert factors == [64, 4, 1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mr": -1}, "0 or more"),
        ({"panel_prefetch": 100}, "multiple of 64"),
        ({"k_unroll": 3}, "1, 2, 4 or 8"),
        ({"nr": 8.0}, "0 or"),
    ],
)
def test_what_cannot_be_anywhere(given: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongBlocking, match=said) as caught:
        Blocking(**given)
    assert caught.value.loc is not None and caught.value.loc.file == __file__


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (Blocking(kc=100), "take 16 numbers along K"),
        (Blocking(mr=20), "does not fit into the registers"),
        (Blocking(nr=24), "registers have 8 numbers"),
        (Blocking(mr=8, nr=32), "with nr=32 it can be 2 at most"),
    ],
    ids=str,
)
def test_what_a_machine_cannot(chosen: Blocking, said: str) -> None:
    with pytest.raises(WrongBlocking) as caught:
        choose_blocking(dots()[0], replace(fixed_target(), blocking=chosen))
    assert said in str(caught.value)
    assert "pto.dot" in str(caught.value)


def test_words_have_steps_of_their_own() -> None:
    target = replace(WIDE, has_bf16_dot=True)
    given = {name: x.astype(bfloat16) if name != "c" else x for name, x in arrays().items()}
    found = Launch(pto.jit(blocking=Blocking(kc=48))(product), (2, 2), {**given, **SIZES}, {})
    with pytest.raises(WrongBlocking, match="make it a multiple of 32"):
        lower(optimized(found), target)


def test_an_option_is_a_blocking() -> None:
    with pytest.raises(Diagnostic, match=r"`blocking` is a `pto.Blocking`"):
        pto.jit(blocking=4)(product)


def test_explained() -> None:
    kernel = pto.jit(blocking=Blocking(mr=3, nr=0))(product)
    given = arrays()
    (found,) = explain(kernel, *given.values(), **SIZES).about("product")
    assert "mr=3 by nr=" in found.text and "kc=" in found.text and "mc=48 by nc=64" in found.text
    assert "packed panels of 1 steps along K stay" in found.text
    facts = inspect(kernel, *given.values(), **SIZES).facts
    assert any(found.text in why for line in facts.values() for why in line.reasons)


def test_explained_of_few_rows() -> None:
    given = arrays(m=4)
    (found,) = explain(pto.jit(product), *given.values(), BM=4, BN=64, BK=32).about("product")
    assert "where B lies row by row, it is read so: mr=" in found.text


def test_an_override_counts_for_each_product() -> None:
    target = replace(fixed_target(), blocking=Blocking(kc=64))
    assert [choose_blocking(dot, target).kc for dot in dots()] == [64]
