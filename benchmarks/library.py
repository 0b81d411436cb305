"""The suite `library`: operators of the library at their size in models, beside torch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks.peers import compiled_torch, imported
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite
from pypto.library import Operator, rows
from pypto.library.timing import tensors

BARS: Final = (Bar("torch", 1.2),)
# What is timed, and the dtype of the first array: those that torch can compose, and that write nothing in place.
SHOWN: Final = (
    ("rms_norm", "f32"), ("rms_norm", "bf16"), ("add_rms_norm", "bf16"), ("layer_norm", "f32"), ("gelu", "f32"),
    ("silu", "bf16"), ("swiglu", "bf16"), ("rope_half", "bf16"), ("rope_interleaved", "bf16"),
    ("rope_interleaved_to_half", "bf16"), ("quantize_per_token", "bf16"), ("quantize_per_channel", "bf16"),
    ("dequantize", "i8"), ("w8a8_matmul", "i8"), ("hadamard", "bf16"), ("attention", "bf16"),
    ("paged_attention", "bf16"), ("sparse_attention", "bf16"), ("topk", "f32"), ("moe_gate", "f32"),
    ("permute_tokens", "bf16"), ("grouped_matmul", "bf16"), ("combine_experts", "bf16"), ("cross_entropy", "bf16"),
    ("kl_divergence", "f32"), ("sepia", "f32"), ("conv_bn_relu", "f32"),
)  # fmt: skip
TOLERANCE: Final = 0.02  # of the norm of the first result; those of each element are the rows' own, and their tests'


def build(operator: Operator, dtype: str) -> Case:
    """Ours and torch on the same tensors, against the float64 reference of the row."""
    torch = imported("torch")
    values = operator.sample(np.random.default_rng(0), "model", dtype)
    view = partial(error, cache(lambda: next(iter(operator.expected(values).values()))))
    if isinstance(torch, Missing):
        return Case(partial(operator, **values), {"torch": torch}, zero, view=view)
    given = tensors(torch, values)
    return Case(partial(operator, **vars(given)), peers(torch, operator, given), zero, view=view)


def zero() -> Any:
    """The error that is expected."""
    return np.zeros(())


def error(expected: Callable[[], Any], result: Any) -> Any:
    """The norm of what the first result is off, over its norm."""
    first = result[0] if isinstance(result, tuple) else result
    right = expected()
    return np.linalg.norm(np.ravel(first - right)) / np.linalg.norm(np.ravel(right))


def peers(torch: Any, operator: Operator, given: SimpleNamespace) -> Mapping[str, Impl | Missing]:
    """Eager torch, and what torch.compile makes of the same function."""
    peer = operator.peer
    assert peer is not None
    names = [name for name, value in vars(given).items() if isinstance(value, torch.Tensor)]
    numbers = {name: value for name, value in vars(given).items() if name not in names}

    def function(*arrays: Any) -> Any:
        return peer(torch, SimpleNamespace(**numbers, **dict(zip(names, arrays, strict=True))))

    arrays = [getattr(given, name) for name in names]
    return {"torch": lambda: function(*arrays), "torch.compile": compiled_torch(torch, function, arrays)}


def row(name: str, dtype: str) -> Row:
    """A row of the suite, of a row of the library."""
    operator = rows[name]
    dims = SimpleNamespace(**operator.sizes["model"])
    shape = ", ".join(f"{key}={value}" for key, value in operator.sizes["model"].items())
    work = operator.flops(dims) if operator.flops else operator.moved(dims)
    make = partial(build, operator, dtype)
    return Row(f"{name} {dtype}", shape, max(work, 1.0), "flop", "", TOLERANCE, make, BARS, family=name)


LIBRARY: Final = Suite("library", tuple(row(name, dtype) for name, dtype in SHOWN))
