"""Rows of microscaling formats: groups of 32 small floats share one power of two."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, float8_e4m3fn
from pypto.library.gradients.rule import ROUNDED
from pypto.library.kernels.quantized import mx as kernels
from pypto.library.row import Implementation, Operator, Values, f64
from pypto.library.tolerance import EXACT, Close

E4M3: Final = float8_e4m3fn.numpy
WIDE: Final = 4096  # columns of a program on Ascend, so that it needs few instructions on groups
NUMBERS: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # magnitudes of E2M1
SOURCE: Final = "OCP Microscaling Formats Specification, 1.0, 2023"
SIZES: Final = {"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}}
FORMULA: Final = (
    "A group is 32 columns, m its largest magnitude. The scale is the code e of `2^(e-127)`: `floor(log2 m) - {emax} + "
    "127`, or with `up`, `ceil(log2(m / {most})) + 127`, from 0 to 254. `q` is the nearest {name} of `x * 2^(127-e)`, "
    "ties to even, at most {most}. A group with NaN has the scale 255, which is NaN, and zeros; one with an infinity "
    "has 254. Scales of two groups lie side by side; that of a group that is not there is 0."
)


def scale_codes(most: Any, emax: int, largest: float, up: int) -> Any:
    """Computes the codes of shared exponents by float64 logarithms, which are exact here for float32 inputs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction, exponent = np.frexp(most / largest if up else most)
    code = np.where(fraction == 0.5, exponent - 1, exponent) + 127 if up else exponent - 1 - emax + 127
    code = np.where(most == 0, 0, np.clip(code, 0, 254))
    return np.where(np.isnan(most), 255, np.where(np.isinf(most), 254, code))


def in_groups(x: Any, emax: int, largest: float, up: int) -> tuple[Any, Any]:
    """Divides numbers by their groups' powers, after padding to pairs of groups; returns them with the codes."""
    t, d = x.shape
    filled = np.zeros((t, -(-d // 64), 2, 32))
    filled.reshape(t, -1)[:, :d] = f64(x)
    code = scale_codes(np.abs(filled).max(axis=3), emax, largest, up)
    with np.errstate(invalid="ignore"):
        scaled = np.clip(filled * np.exp2(127.0 - code)[..., None], -largest, largest)
    return np.where(code[..., None] == 255, 0, scaled).reshape(t, -1), code


def quantize_mx(x: Any, up: int) -> tuple[Any, Any]:
    """Reference implementation of `quantize_mx` in numpy."""
    scaled, code = in_groups(x, 8, 448.0, up)
    return f64(scaled[:, : x.shape[1]].astype(np.float32).astype(E4M3)), code


def quantize_mxfp4(x: Any, up: int) -> tuple[Any, Any]:
    """Reference implementation of `quantize_mxfp4`: the nearest of eight numbers; ties go to the even code."""
    scaled, code = in_groups(x, 2, 6.0, up)
    far = np.abs(np.abs(scaled)[..., None] - NUMBERS) + np.arange(8) % 2 * 1e-9
    q = far.argmin(axis=2) + 8 * (scaled < 0)
    return (q[:, 0::2] + 16 * q[:, 1::2])[:, : (x.shape[1] + 1) // 2], code


def multiplied(t: Any, code: Any) -> Any:
    """Multiplies numbers by their groups' powers."""
    factor = np.where(code == 255, np.nan, np.exp2(f64(code) - 127)).reshape(len(t), -1)
    return f64(t) * np.repeat(factor, 32, axis=1)[:, : t.shape[1]]


def mx_matmul(a: Any, a_scale: Any, b: Any, b_scale: Any, bias: Any, relu: int) -> Any:
    """Reference implementation of `mx_matmul` in numpy."""
    y = multiplied(a, a_scale) @ multiplied(b, b_scale).T + (0 if bias is None else f64(bias))
    return np.maximum(y, 0) if relu else y


def many_sizes(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples groups of very different magnitudes."""
    size = np.exp2(rng.integers(-12, 12, (n.t, n.d // 32))).repeat(32, axis=1)
    x = np.zeros((n.t, n.d), np.float32)
    x[:, : size.shape[1]] = rng.standard_normal(size.shape) * size
    return {"x": x.astype(dtype.numpy)}


def special(up: int, rng: np.random.Generator) -> Values:
    """Edge case: zeros, NaN, infinities, the ends of float32's range, ties, and a partial last group."""
    x = rng.standard_normal((7, 70)).astype(np.float32)
    x[0], x[1, 3], x[2, 40], x[2, 41] = 0, np.nan, np.inf, -2.0
    x[3], x[4] = x[3] * np.float32(2.0**-130), x[4] * np.float32(2.0**124)
    x[5, :8], x[6, :8] = (448, 1.0625, 1.1875, 449, 17, 19, 447, -448), (6, 0.25, 0.75, 1.25, 2.5, 3.5, 5, -5)
    return {"x": x, "up": up}


def coded(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples codes around the scale 1."""

    def floats(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32).astype(E4M3)

    pairs = -(-n.k // 64)
    codes = {name: rng.integers(122, 129, (rows, pairs, 2)).astype(np.uint8) for name, rows in (("a", n.t), ("b", n.n))}
    return {"a": floats(n.t, n.k), "b": floats(n.n, n.k), **{f"{name}_scale": code for name, code in codes.items()}}


def with_bias(rng: np.random.Generator) -> Values:
    """Edge case: a bias, relu, and a partial last group."""
    inputs = coded(rng, SimpleNamespace(t=3, k=70, n=9), float8_e4m3fn)
    return {**inputs, "bias": rng.standard_normal(9).astype(np.float32), "relu": 1}


EDGES: Final = {"special": lambda rng: special(0, rng), "special, up": lambda rng: special(1, rng)}


def groups_by_torch(torch: Any, x: Any, emax: int, largest: float) -> Any:
    """Torch form of `in_groups`."""
    t = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % 64)).view(len(x), -1, 2, 32)
    most = t.abs().amax(3)
    code = torch.where(most > 0, (torch.frexp(most).exponent + (126 - emax)).clamp(0, 254), 0)
    scaled = (t * torch.exp2(127.0 - code)[..., None]).clamp(-largest, largest)
    return scaled.view(len(x), -1)[:, : x.shape[1]], code.to(torch.uint8)


def mx_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    scaled, code = groups_by_torch(torch, v.x, 8, 448.0)
    return scaled.to(torch.float8_e4m3fn), code


def mxfp4_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, which has no 4-bit float: codes are found by comparing with midpoints."""
    scaled, code = groups_by_torch(torch, v.x, 2, 6.0)
    halves = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    q = torch.bucketize(scaled.abs(), halves, out_int32=True).to(torch.uint8) + 8 * (scaled < 0)
    return q[:, 0::2] | (q[:, 1::2] << 4), code


def matmul_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: numbers times their powers are exact in bfloat16."""
    a, b = (
        x.bfloat16() * torch.exp2(code.flatten(1).float() - 127).bfloat16().repeat_interleave(32, 1)[:, : x.shape[1]]
        for x, code in ((v.a, v.a_scale), (v.b, v.b_scale))
    )
    return (a @ b.T).float() + (0 if v.bias is None else v.bias)


ROWS: Final = (
    Operator(
        "quantize_mx", "Quantisation to MXFP8: E4M3 with a power of two for each 32 columns",
        "x[t..., d] bf16|f16|f32, up=0 -> q[t..., d] f8e4m3fn, scale[t..., (d+63)//64, 2] u8",
        FORMULA.format(emax=8, most=448, name="E4M3"), SOURCE, quantize_mx,
        (Implementation("wide", partial(kernels.quantize_mx, columns=WIDE), ("ascend",)),
         Implementation("rows", kernels.quantize_mx)), SIZES, sampler=many_sizes, edges=EDGES,
        tolerance={"q": EXACT, "scale": EXACT}, flops=lambda n: 4.0 * n.t * n.d, items="t", peer=mx_by_torch,
        no_gradient=ROUNDED,
    ),
    Operator(
        "quantize_mxfp4", "Quantisation to MXFP4: two E2M1 in a byte, with a power of two for each 32 columns",
        "x[t..., d] bf16|f16|f32, up=0 -> packed[t..., (d+1)//2] u8, scale[t..., (d+63)//64, 2] u8",
        FORMULA.format(emax=2, most=6, name="E2M1") + " The first of two columns is the low nibble of a byte.",
        SOURCE, quantize_mxfp4,
        (Implementation("wide", partial(kernels.quantize_mxfp4, columns=WIDE), ("ascend",)),
         Implementation("rows", kernels.quantize_mxfp4)), SIZES, sampler=many_sizes,
        edges=EDGES, tolerance={"packed": EXACT, "scale": EXACT}, flops=lambda n: 12.0 * n.t * n.d, items="t",
        peer=mxfp4_by_torch,
        no_gradient=ROUNDED,
    ),
    Operator(
        "mx_matmul", "Product of rows of MXFP8",
        "a[t..., k] f8e4m3fn, a_scale[t..., (k+63)//64, 2] u8, b[n, k], b_scale[n, (k+63)//64, 2] u8, bias[n]? f32, "
        "relu=0 -> y[t..., n] f32 where 1 <= k, any(a_scale, b_scale)",
        "`y = (a * 2^(a_scale-127)) @ (b * 2^(b_scale-127)).T + bias`, summed in float32, and with `relu` at least 0. "
        "Scales are as `quantize_mx` gives them.", SOURCE, mx_matmul,
        (Implementation("widened", kernels.mx_matmul_widened), Implementation("tiles", kernels.mx_matmul)),
        {"small": {"t": 5, "k": 96, "n": 70}, "model": {"t": 512, "k": 2048, "n": 2048}}, sampler=coded,
        edges={"bias": with_bias}, tolerance={"y": Close(1e-4, 1e-3)}, flops=lambda n: 2.0 * n.t * n.k * n.n,
        items="t", peer=matmul_by_torch,
        no_gradient="float8 numbers come from a quantisation, which states no gradient",
    ),
)  # fmt: skip
