"""The suite `inductor`: functions under torch.compile, with pypto's kernels and with Inductor's own C++."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.data import random
from benchmarks.peers import imported, quiet, tensor, torch_function
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite

Function = Callable[..., Any]  # of torch's functional module, and tensors
BARS: Final = (Bar("compiled", 0.8),)


def compiled_here(function: Function, arrays: tuple[Any, ...]) -> Impl | Missing:
    """The function through `pypto-inductor`, compiled for these arrays."""
    torch = imported("torch")
    if isinstance(torch, Missing):
        return torch
    from pypto.torch.inductor.backend import pypto_inductor

    given = [tensor(torch, array) for array in arrays]
    made = torch.compile(partial(function, torch.nn.functional), backend=pypto_inductor, dynamic=False)
    with quiet():
        made(*given)
    return lambda: made(*given)


def case(function: Function, shapes: tuple[tuple[int, ...], ...]) -> Case:
    """A function on random arrays; the reference is eager torch in float64."""
    arrays = tuple(random(*shape) for shape in shapes)

    def in_double() -> Any:
        torch = imported("torch")
        return function(torch.nn.functional, *(torch.from_numpy(x.astype(np.float64)) for x in arrays)).numpy()

    # Peers first: torch.compile forgets what was compiled before it is measured.
    peers = torch_function(lambda torch, *given: function(torch.nn.functional, *given), *arrays)
    return Case(compiled_here(function, arrays), peers, in_double)


def row(name: str, function: Function, *shapes: tuple[int, ...]) -> Row:
    """A row whose work is the bytes of what goes in."""
    size = sum(4.0 * float(np.prod(shape)) for shape in shapes)
    shown = " x ".join(map(str, shapes[0]))
    return Row(name, shown, size, "B", "", 1e-3, partial(case, function, shapes), BARS, (1,), needs="torch")


def rms_norm(F: Any, x: Any, w: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w


def batch_norm(F: Any, x: Any, w: Any, b: Any) -> Any:
    return F.relu(F.batch_norm(x, None, None, w, b, True))


def rotated(F: Any, x: Any, c: Any, s: Any) -> Any:
    a, b = x[..., :32], x[..., 32:]
    return imported("torch").cat((a * c - b * s, b * c + a * s), -1)


ROWS: Final = (
    row("bias and gelu", lambda F, x, b: F.gelu(x + b), (1024, 1024), (1024,)),
    row("silu and product", lambda F, x, y: F.silu(x) * y, (1024, 1024), (1024, 1024)),
    row("add and relu", lambda F, x, y: F.relu(x + y) * 0.5, (64, 1024), (64, 1024)),
    row("transpose and add", lambda F, x, y: x.t() + y, (1024, 1024), (1024, 1024)),
    row("rotary places", rotated, (2, 8, 256, 64), (256, 32), (256, 32)),
    row("nearest upsampling", lambda F, x: F.interpolate(x, scale_factor=2) + 1, (4, 32, 28, 28)),
    row("max pooling", lambda F, x: F.max_pool2d(F.relu(x), 3, 2, 1), (4, 32, 56, 56)),
    row("softmax", lambda F, x: x.softmax(-1), (1024, 1024)),
    row("softmax of short rows", lambda F, x: x.softmax(-1), (4096, 64)),
    row("layer norm", lambda F, x, w, b: F.layer_norm(x, (768,), w, b), (1024, 768), (768,), (768,)),
    row("rms norm", rms_norm, (512, 2048), (2048,)),
    row("group norm and silu", lambda F, x, w, b: F.silu(F.group_norm(x, 8, w, b)), (4, 64, 32, 32), (64,), (64,)),
    row("batch norm and relu", batch_norm, (16, 64, 28, 28), (64,), (64,)),
    row("sum of squares", lambda F, x: x.square().sum(-1), (1024, 1024)),
    row("sum over rows", lambda F, x: (x * 2).sum(0), (1024, 1024)),
    row("variance", lambda F, x: x.var(1), (1024, 1024)),
)
INDUCTOR: Final = Suite("inductor", ROWS)
