"""The suite `gradients`: derived backward kernels, beside kernels by hand and the backward of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import pypto as pto
from benchmarks.attention import gradients as attention_gradients
from benchmarks.data import EPS, bind, count, memory_limit, random
from benchmarks.kernels import attention, elementwise, rows
from benchmarks.kernels import gradients as by_hand
from benchmarks.peers import tensor, torch_peers
from benchmarks.runner import Bar, Case, Impl, Row, Suite

Function = Callable[..., Any]  # of torch, and of its tensors
BLOCKS: Final = 64
BARS: Final = (Bar("torch", 1.3), Bar("by hand", 0.8))


def torch_backward(function: Function, inputs: Sequence[Any], d_y: Any, others: Sequence[Any] = ()) -> Any:
    """The backward of a function of torch alone: its forward pass runs once, before anything is timed."""

    def make(torch: Any) -> Mapping[str, Impl]:
        with torch.inference_mode(False):
            leaves = [tensor(torch, x).clone().requires_grad_() for x in inputs]
            above = tensor(torch, d_y).clone()
            result = function(torch, *leaves, *(tensor(torch, x) for x in others))

        def run() -> Any:
            with torch.inference_mode(False):
                return torch.autograd.grad(result, leaves, above, retain_graph=True)

        return {"torch": run}

    return torch_peers(make)


def softmax_case(m: int, n: int) -> Case:
    x, d_y = random(m, n, spread=16), random(m, n)
    y, d_x, own = (np.empty_like(x) for _ in range(3))
    back = pto.adjoint(rows.softmax_kernel, ["x"], reuse=["y"])
    rows.softmax_kernel[m,](x, y)
    ours = bind(d_x, partial(back[m], x, y, d_y=d_y, d_x=d_x))
    peers = {
        "by hand": bind(own, by_hand.softmax_backward, x, d_y, own),
        **torch_backward(lambda t, a: t.softmax(a, -1), [x], d_y),
    }

    def reference() -> Any:
        wide = x.astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        return p * (d_y - (d_y * p).sum(1, keepdims=True))

    return Case(ours, peers, reference, [d_x, own], first)


def first(result: Any) -> Any:
    """Of several results the first."""
    return result[0] if isinstance(result, (tuple, list)) else result


def normed(x: Any) -> tuple[Any, Any]:
    """Rows without their mean over their deviation, and one over that, in float64."""
    centred = x - x.mean(1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(1, keepdims=True) + EPS)
    return centred * scale, scale


def layer_norm_case(m: int, n: int) -> Case:
    x, d_y, weight, bias = random(m, n), random(m, n, spread=1.0), random(n), random(n, spread=2)
    y = np.empty_like(x)
    ours, own = ([np.empty_like(a) for a in (x, weight, bias)] for _ in range(2))
    back = pto.adjoint(rows.layer_norm_kernel, ["x", "weight", "bias"])
    given = dict(zip(("d_x", "d_weight", "d_bias"), ours, strict=True))
    room = np.empty((2, BLOCKS, n), np.float32)
    peers = {
        "by hand": bind(own, by_hand.layer_norm_backward, x, weight, d_y, *own, room, EPS),
        **torch_backward(lambda t, a, w, b: t.nn.functional.layer_norm(a, (n,), w, b, EPS), [x, weight, bias], d_y),
    }

    def reference() -> Any:
        line, scale = normed(x.astype(np.float64))
        g = d_y * weight.astype(np.float64)
        inner = g - g.mean(1, keepdims=True) - line * (g * line).mean(1, keepdims=True)
        return inner * scale, (d_y * line).sum(0), d_y.sum(0, dtype=np.float64)

    return Case(
        bind(ours, partial(back[m], x, weight, bias, y, EPS, d_y=d_y, **given)), peers, reference, [*ours, *own]
    )


def rms_norm_case(m: int, n: int) -> Case:
    x, d_y, weight = random(m, n), random(m, n, spread=1.0), random(n)
    y = np.empty_like(x)
    ours, own = ([np.empty_like(a) for a in (x, weight)] for _ in range(2))
    back = pto.adjoint(rows.rms_norm_kernel, ["x", "weight"])
    run = partial(back[m], x, weight, y, EPS, d_y=d_y, d_x=ours[0], d_weight=ours[1])
    room = np.empty((BLOCKS, n), np.float32)
    peers = {
        "by hand": bind(own, by_hand.rms_norm_backward, x, weight, d_y, *own, room, EPS),
        **torch_backward(lambda t, a, w: t.nn.functional.rms_norm(a, (n,), w, EPS), [x, weight], d_y),
    }

    def reference() -> Any:
        wide = x.astype(np.float64)
        scale = 1 / np.sqrt((wide * wide).mean(1, keepdims=True) + EPS)
        line, g = wide * scale, d_y * weight.astype(np.float64)
        return (g - line * (g * line).mean(1, keepdims=True)) * scale, (d_y * line).sum(0)

    return Case(bind(ours, run), peers, reference, [*ours, *own])


def gelu_case(n: int) -> Case:
    x, d_y = random(n, spread=8), random(n)
    y, d_x, own = (np.empty_like(x) for _ in range(3))
    back = pto.adjoint(elementwise.gelu_kernel, ["x"])
    block = elementwise.BLOCK
    ours = bind(d_x, partial(back[pto.cdiv(n, block)], x, y, BLOCK=block, d_out=d_y, d_x=d_x))
    peers = {
        "by hand": bind(own, by_hand.gelu_backward, x, d_y, own),
        **torch_backward(lambda t, a: t.nn.functional.gelu(a, approximate="tanh"), [x], d_y),
    }

    def reference() -> Any:
        wide = x.astype(np.float64)
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * wide * wide)
        t = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
        return d_y * (0.5 * (1 + t) + 0.5 * wide * (1 - t * t) * slope)

    return Case(ours, peers, reference, [d_x, own], first)


def cross_entropy_case(m: int, n: int) -> Case:
    logits, d_loss = random(m, n, spread=16), random(m)
    labels = np.random.default_rng(m).integers(0, n, m)
    loss, d_logits, own = np.empty(m, np.float32), np.empty_like(logits), np.empty_like(logits)
    back = pto.adjoint(rows.cross_entropy_kernel, ["logits"])
    ours = bind(d_logits, partial(back[m], logits, labels, loss, d_loss=d_loss, d_logits=d_logits))

    def by_torch(torch: Any, a: Any, at: Any) -> Any:
        return torch.nn.functional.cross_entropy(a, at, reduction="none")

    peers = {
        "by hand": bind(own, by_hand.cross_entropy_backward, logits, labels, d_loss, own),
        **torch_backward(by_torch, [logits], d_loss, [labels]),
    }

    def reference() -> Any:
        wide = logits.astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        p[np.arange(m), labels] -= 1
        return p * d_loss[:, None]

    return Case(ours, peers, reference, [d_logits, own], first)


def attention_case(heads: int, n: int, d: int) -> Case:
    q, k, v, d_out = (random(heads, n, d, spread=spread) for spread in (4.0, 3.0, 2.0, 1.0))
    out, (logs, product, d_logs) = np.empty_like(q), np.zeros((3, heads, n), np.float32)
    ours, own = ([np.empty_like(q) for _ in range(3)] for _ in range(2))
    attention.attention(q, k, v, out, logs)
    back = pto.adjoint(attention.forward_kernel, ["q", "k", "v"], reuse=["out"])
    size = 64
    options = {"GROUP": 1, "CAUSAL": False, "BM": size, "BN": size, "PRECISION": "ieee"}
    given = dict(zip(("d_q", "d_k", "d_v"), ours, strict=True))
    grid = (pto.cdiv(n, size), heads)
    run = partial(back[grid], q, k, v, out, logs, **options, d_out=d_out, d_log_total=d_logs, **given)
    peers = {
        "by hand": bind(own, attention.attention_backward, q, k, v, out, logs, d_out, product, own),
        **torch_backward(lambda t, *args: t.nn.functional.scaled_dot_product_attention(*args), [q, k, v], d_out),
    }
    return Case(
        bind(ours, run), peers, lambda: attention_gradients(*(x.astype(np.float64) for x in (q, k, v, d_out))),
        [*ours, *own],
    )  # fmt: skip


def row(name: str, build: Callable[..., Case], shape: tuple[int, ...], size: float, tolerance: float) -> Row:
    """A row that moves `size` bytes for each element of its shape."""
    total = size * math.prod(shape)
    text = " x ".join(map(count, shape))
    return Row(name, text, total, "B", memory_limit("copy", total), tolerance, partial(build, *shape), BARS, (0,))


ROWS: Final = (
    row("softmax backward", softmax_case, (4096, 4096), 12, 1e-5),
    row("layer norm backward", layer_norm_case, (4096, 1024), 12, 2e-3),
    row("rms norm backward", rms_norm_case, (4096, 1024), 12, 2e-3),
    row("gelu backward", gelu_case, (1 << 20,), 12, 1e-5),
    row("cross entropy backward", cross_entropy_case, (1024, 32000), 8, 1e-5),
    Row("attention backward", "8 x 1024 x 64", 10.0 * 8 * 1024**2 * 64, "flop", "fma", 1e-5,
        partial(attention_case, 8, 1024, 64), (Bar("torch", 1.0), Bar("by hand", 0.8)), (0,), intensity=320),
)  # fmt: skip
GRADIENTS: Final = Suite("gradients", ROWS)
