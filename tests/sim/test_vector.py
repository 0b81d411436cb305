"""The simulated device computes what the hardware does: vector instructions, copies with tails, cores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.device import LOAD, STORE, launched, needs_compiler, vector_kernel

pytestmark = needs_compiler
N = 1000
RNG = np.random.default_rng(0)

FUNCTIONS = {
    "Exp(b, a, n)": np.exp,
    "Ln(b, a, n)": np.log,
    "Sqrt(b, a, n)": np.sqrt,
    "Abs(b, a, n)": np.abs,
    "Add(b, a, a, n)": lambda x: x + x,
    "Sub(b, a, a, n)": lambda x: x - x,
    "Mul(b, a, a, n)": lambda x: x * x,
    "Div(b, a, a, n)": lambda x: x / x,
    "Muls(b, a, 3.0f, n)": lambda x: x * np.float32(3),
    "Adds(b, a, -1.0f, n)": lambda x: x - np.float32(1),
    "Maxs(b, a, 1.0f, n)": lambda x: np.maximum(x, np.float32(1)),
    "Duplicate(b, 7.0f, n)": lambda x: np.full_like(x, 7),
    "Exp(b, a, 64, 15, {1, 1, 8, 8}); Exp(b[960], a[960], 40, 1, {1, 1, 8, 8})": np.exp,
}


@pytest.mark.parametrize("call", FUNCTIONS)
def test_elementwise(call: str) -> None:
    x, y = RNG.uniform(0.1, 4, N).astype(np.float32), np.zeros(N, np.float32)
    launched(vector_kernel(LOAD + call + ";" + STORE), [x, y], N)
    np.testing.assert_allclose(y, FUNCTIONS[call](x.astype(np.float64)), rtol=1e-7, atol=1e-9)


def test_rows_are_reduced_and_spread() -> None:
    """The fold of a softmax: 8 rows of 64, their maxima, and these over whole blocks again."""
    x, y = RNG.standard_normal(512).astype(np.float32), np.zeros(512, np.float32)
    body = """
    WholeReduceMax(b, a, 64, 8, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
    PipeBarrier<PIPE_V>();
    Brcb(b[64], b, 1, {1, 8});
    PipeBarrier<PIPE_V>();
    Sub(b, a, b[64], 64, 8, {1, 1, 0, 8, 8, 1});
    """
    with pytest.raises(Exception, match="overlap partly"):  # the result would be written over what spreads the maxima
        launched(vector_kernel(LOAD + body + STORE), [x, y], 512)
    launched(vector_kernel(LOAD + body.replace("b[64]", "b[1024]") + STORE), [x, y], 512)
    rows = x.reshape(8, 64)
    np.testing.assert_array_equal(y.reshape(8, 64), rows - rows.max(1, keepdims=True))


def test_pairs_are_put_in_order_and_merged() -> None:
    """Lists of 64, 32 and 32 scores; of equal scores, the one that was first stays so."""
    x, y = (RNG.integers(0, 9, 128) * 1.0).astype(np.float32), np.zeros(256, np.float32)
    body = """
    LocalTensor<uint32_t> index(TPosition::VECCALC, 65536, 512);
    LocalTensor<float> c(TPosition::VECCALC, 131072, 1024);
    TPipe pipe;
    CreateVecIndex(index.ReinterpretCast<int32_t>(), 0, 128);
    PipeBarrier<PIPE_V>();
    Sort32(b, a, index, 4);
    PipeBarrier<PIPE_V>();
    MrgSort4Info m;
    m.validBit = 3, m.elementLengths[0] = m.elementLengths[1] = 32;
    MrgSort(c, MrgSortSrcList<float>(b, b[64], b[64], b[64]), m);
    PipeBarrier<PIPE_V>();
    m.validBit = 7, m.elementLengths[0] = 64, m.elementLengths[2] = 32;
    MrgSort(a, MrgSortSrcList<float>(c, b[128], b[192], b), m);
    PipeBarrier<PIPE_V>();
    uint64_t kept = 0;
    GatherMask(b, a, 1, false, 0, {1, 4, 8, 0}, kept);
    GatherMask(index, a.ReinterpretCast<uint32_t>(), 2, false, 0, {1, 4, 8, 0}, kept);
    PipeBarrier<PIPE_V>();
    Cast(b[128], index.ReinterpretCast<int32_t>(), RoundMode::CAST_RINT, 128);
    """
    launched(vector_kernel(LOAD.replace("static_cast<uint32_t>(n)", "128u") + body + STORE), [x, y], 256)
    order = np.argsort(-x, kind="stable")
    np.testing.assert_array_equal(y, np.concatenate([x[order], order.astype(np.float32)]))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 999])
def test_tails_are_copied_to_the_byte(count: int) -> None:
    x, y = RNG.standard_normal(count).astype(np.float32), np.zeros(count, np.float32)
    launched(vector_kernel(LOAD + "Muls(b, a, 2.0f, (n + 7) / 8 * 8);" + STORE), [x, y], count)
    np.testing.assert_array_equal(y, 2 * x)


def test_select_by_compared_bits() -> None:
    x, y = RNG.standard_normal(512).astype(np.float32), np.zeros(512, np.float32)
    body = """
    CompareScalar(bits, a, 0.0f, CMPMODE::GT, 512);
    PipeBarrier<PIPE_V>();
    Select(b, bits, a, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 512);
    """
    launched(vector_kernel(LOAD + body + STORE), [x, y], 512)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


CASTS = """
    LocalTensor<half> h(TPosition::VECCALC, 65536, 4096);
    LocalTensor<int32_t> i(TPosition::VECCALC, 81920, 4096);
    Cast(h, a, RoundMode::CAST_RINT, n);
    PipeBarrier<PIPE_V>();
    Cast(i, h, RoundMode::CAST_{mode}, n);
    PipeBarrier<PIPE_V>();
    Cast(b, i, RoundMode::CAST_RINT, n);
"""


@pytest.mark.parametrize(
    ("mode", "function"), [("RINT", np.rint), ("FLOOR", np.floor), ("CEIL", np.ceil), ("TRUNC", np.trunc)]
)
def test_casts(mode: str, function: np.ufunc) -> None:
    x, y = (40 * RNG.standard_normal(N)).astype(np.float32), np.zeros(N, np.float32)
    launched(vector_kernel(LOAD + CASTS.replace("{mode}", mode) + STORE), [x, y], N)
    np.testing.assert_array_equal(y, function(x.astype(np.float16)).astype(np.float32))


def test_many_cores_share_the_work() -> None:
    count = 20_011
    x, y = RNG.standard_normal(count).astype(np.float32), np.zeros(count, np.float32)
    source = vector_kernel(
        """
    const int32_t each = (n + static_cast<int32_t>(GetBlockNum()) - 1) / static_cast<int32_t>(GetBlockNum());
    const int32_t start = each * static_cast<int32_t>(GetBlockIdx());
    const int32_t all = n;
    n = all - start < each ? all - start : each;
    gx = gx[start], gy = gy[start];
    """
        + LOAD
        + "Adds(b, a, 1.0f, n);"
        + STORE
    )
    launched(source, [x, y], count, blocks=48)
    np.testing.assert_array_equal(y, x + np.float32(1))


def test_a_kernel_may_have_much_on_its_stack() -> None:
    """As one of thousands of lines does, where every tensor is a variable."""
    body = "volatile char all[4 << 20]; for (auto& c : all) c = 0;" + LOAD + "Adds(b, a, 1.0f + all[n], n);" + STORE
    x, y = RNG.standard_normal(N).astype(np.float32), np.zeros(N, np.float32)
    launched(vector_kernel(body), [x, y], N)
    np.testing.assert_array_equal(y, x + np.float32(1))
