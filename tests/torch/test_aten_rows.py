"""Each row of core ATen, beside torch: one graph calls all of them, and nothing of it may run in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from pypto.torch.aten import TABLE  # noqa: E402
from pypto.torch.dynamo.compiled import CompiledGraph  # noqa: E402
from pypto.torch.dynamo.settings import Settings  # noqa: E402

aten: Any = torch.ops.aten
Case = Callable[[Mapping[str, Any]], Any]
UNARY: Final = [
    "neg",
    "floor",
    "ceil",
    "trunc",
    "square",
    "relu",
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tanh",
    "sinh",
    "asinh",
    "atan",
    "erf",
    "erfc",
    "sigmoid",
    "silu",
    "sign",
    "round",
    "abs",
    "nan_to_num",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "gelu",
    "elu",
    "leaky_relu",
    "softplus",
    "alias",
    "detach",
    "clone",
    "lift_fresh_copy",
    "t",
    "logical_not",
]
POSITIVE: Final = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "acosh"]
SMALL: Final = ["tan", "asin", "acos", "atanh", "cosh"]
BINARY: Final = [
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "remainder",
    "fmod",
    "hypot",
    "copysign",
    "atan2",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logaddexp",
    "floor_divide",
]
BITWISE: Final = ["bitwise_and", "bitwise_or", "bitwise_xor"]
TOGETHER: Final = 8  # cases of a graph
FLOATS: Final = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def of(name: str, *letters: str) -> Case:
    """The call of an op on tensors alone."""
    return lambda v: getattr(aten, name)(*(v[letter] for letter in letters))


def computed() -> dict[str, Case]:
    """A call for each row that computes, by its name; letters stand for `tensors`."""
    return {
        **{name: of(name, "x") for name in UNARY},
        **{name: of(name, "p") for name in POSITIVE},
        **{name: of(name, "s") for name in SMALL},
        **{name: of(name, "x", "y") for name in BINARY},
        **{name: of(name, "i", "j") for name in BITWISE},
        "bitwise_not": lambda v: aten.bitwise_not(v["i"]),
        "bitwise_left_shift": lambda v: aten.bitwise_left_shift(v["i"], 2),
        "bitwise_right_shift": lambda v: aten.bitwise_right_shift(v["i"], 2),
        "pow": lambda v: aten.pow(v["p"], 3),
        "clamp": lambda v: aten.clamp(v["x"], -0.5, 0.5),
        "clamp_min": lambda v: aten.clamp_min(v["x"], 0.25),
        "clamp_max": lambda v: aten.clamp_max(v["x"], 0.25),
        "hardtanh": lambda v: aten.hardtanh(v["x"], -0.5, 1.0),
        "where": lambda v: aten.where(v["m"], v["x"], v["y"]),
        "addcmul": lambda v: aten.addcmul(v["x"], v["y"], v["p"], value=0.5),
        "addcdiv": lambda v: aten.addcdiv(v["x"], v["y"], v["p"], value=0.5),
        "lerp": lambda v: aten.lerp(v["x"], v["y"], v["s"]),
        "threshold_backward": lambda v: aten.threshold_backward(v["y"], v["x"], 0),
        "convert_element_type": lambda v: torch.ops.prims.convert_element_type(v["x"], torch.float32),
        "_to_copy": lambda v: aten._to_copy(v["x"], dtype=torch.int32),
        "sum": lambda v: aten.sum(v["x"], [0, 1]),
        "mean": lambda v: aten.mean(v["x"], [1], True),
        "prod": lambda v: aten.prod(v["s"], 1),
        "amax": lambda v: aten.amax(v["x"], [1]),
        "amin": lambda v: aten.amin(v["x"], [0], True),
        "max": lambda v: aten.max(v["x"], 1),
        "min": lambda v: aten.min(v["x"], 1, True),
        "argmax": lambda v: aten.argmax(v["x"], 1),
        "argmin": lambda v: aten.argmin(v["x"]),
        "any": lambda v: aten.any(v["m"], 1),
        "all": lambda v: aten.all(v["m"]),
        "var": lambda v: aten.var(v["x"], [1], correction=0),
        "var_mean": lambda v: aten.var_mean(v["x"], [1], correction=1),
        "_softmax": lambda v: aten._softmax(v["x"], 1, False),
        "_log_softmax": lambda v: aten._log_softmax(v["x"], 1, False),
        "_softmax_backward_data": lambda v: aten._softmax_backward_data(v["x"], v["p"], 1, v["x"].dtype),
        "_log_softmax_backward_data": lambda v: aten._log_softmax_backward_data(v["x"], v["y"], 1, v["x"].dtype),
        "cumsum": lambda v: aten.cumsum(v["x"], 1),
        "sort": lambda v: aten.sort(v["f"], 1),
        "topk": lambda v: aten.topk(v["f"], 3, 1),
        "linalg_vector_norm": lambda v: aten.linalg_vector_norm(v["x"], 2, [1]),
    }


def moved_and_made() -> dict[str, Case]:
    """A call for each row that moves, multiplies, gathers or creates."""
    return {
        "view": lambda v: aten.view(v["x"], [2, -1]),
        "reshape": lambda v: aten.reshape(v["x"], [-1]),
        "_unsafe_view": lambda v: aten._unsafe_view(v["x"], [24]),
        "expand": lambda v: aten.expand(v["r"], [4, 6]),
        "permute": lambda v: aten.permute(v["x"], [1, 0]),
        "transpose": lambda v: aten.transpose(v["x"], 0, 1),
        "squeeze": lambda v: aten.squeeze(aten.unsqueeze(v["x"], 0), 0),
        "unsqueeze": lambda v: aten.unsqueeze(v["x"], -1),
        "select": lambda v: aten.select(v["x"], 1, -2),
        "slice": lambda v: aten.slice(v["x"], 1, 1, 9223372036854775807, 2),
        "slice_scatter": lambda v: aten.slice_scatter(v["x"], v["r"], 0, 1, 2),
        "select_scatter": lambda v: aten.select_scatter(v["x"], v["b"], 0, 2),
        "cat": lambda v: aten.cat([v["x"], v["y"], v["r"]], 0),
        "stack": lambda v: aten.stack([v["x"], v["y"]], 1),
        "split": lambda v: aten.split(v["x"], 4, 1),
        "split_with_sizes": lambda v: aten.split_with_sizes(v["x"], [1, 5], 1),
        "unbind": lambda v: aten.unbind(v["x"], 0),
        "constant_pad_nd": lambda v: aten.constant_pad_nd(v["x"], [1, -2, 0, 1], 0.5),
        "flip": lambda v: aten.flip(v["x"], [1]),
        "roll": lambda v: aten.roll(v["x"], [2], [1]),
        "repeat": lambda v: aten.repeat(v["x"], [2, 1, 3]),
        "as_strided": lambda v: aten.as_strided(v["x"] + 1, [2, 12], [12, 1]),
        "diagonal": lambda v: aten.diagonal(v["x"], 1),
        "tril": lambda v: aten.tril(v["x"]),
        "triu": lambda v: aten.triu(v["x"], 1),
        "mm": lambda v: aten.mm(v["x"], v["w"]),
        "bmm": lambda v: aten.bmm(v["q"], v["k"]),
        "addmm": lambda v: aten.addmm(v["c"], v["x"], v["w"], beta=0.5, alpha=2),
        "baddbmm": lambda v: aten.baddbmm(v["q"], v["q"], v["q"]),
        "dot": lambda v: aten.dot(v["b"], v["b"]),
        "mv": lambda v: aten.mv(v["x"], v["b"]),
        "_scaled_dot_product_flash_attention_for_cpu": lambda v: aten._scaled_dot_product_flash_attention_for_cpu(
            v["h"], v["h"], v["h"], 0.0, True
        ),
        "embedding": lambda v: aten.embedding(v["x"], v["i"]),
        "index_select": lambda v: aten.index_select(v["x"], 1, v["d"]),
        "index": lambda v: aten.index(v["x"], [v["d"], v["d"]]),
        "_unsafe_index": lambda v: aten._unsafe_index(v["x"], [None, v["d"]]),
        "gather": lambda v: aten.gather(v["x"], 1, v["i"]),
        "index_put": lambda v: aten.index_put(v["x"], [v["d"]], v["c"][:, :1], True),
        "full": lambda v: aten.full([2, 3], 1.5),
        "full_like": lambda v: aten.full_like(v["x"], 7),
        "scalar_tensor": lambda v: aten.scalar_tensor(2.5),
        "fill": lambda v: aten.fill(v["x"], 3),
        "zeros": lambda v: aten.zeros([2, 3]),
        "ones": lambda v: aten.ones([3]),
        "zeros_like": lambda v: aten.zeros_like(v["x"]),
        "ones_like": lambda v: aten.ones_like(v["x"]),
        "new_zeros": lambda v: aten.new_zeros(v["x"], [3]),
        "new_ones": lambda v: aten.new_ones(v["x"], [3]),
        "new_full": lambda v: aten.new_full(v["x"], [3], 2),
        "arange": lambda v: aten.arange(2, 14, 3),
    }


CASES: Final[Mapping[str, Case]] = MappingProxyType(computed() | moved_and_made())
# Rows of memory whose content is arbitrary.
UNSEEN: Final = frozenset(["empty", "empty_strided", "empty_permuted", "empty_like", "new_empty"])


def tensors(dtype: Any) -> dict[str, Any]:
    """Tensors by the letters of the cases."""
    rng = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> Any:
        return torch.randn(shape, generator=rng)

    given = {
        "x": draw(4, 6), "y": draw(4, 6), "p": draw(4, 6).abs() + 1.25, "s": torch.rand((4, 6), generator=rng) * 0.9,
        "r": draw(1, 6), "b": draw(6), "w": draw(6, 5), "c": draw(4, 5), "q": draw(2, 3, 3), "k": draw(2, 3, 4),
        "h": draw(1, 2, 5, 8),
    }  # fmt: skip
    given = {name: x.to(dtype) for name, x in given.items()}
    integers = {
        "i": torch.randint(0, 4, (4, 3), generator=rng), "j": torch.randint(-9, 9, (4, 3), generator=rng),
        "d": torch.tensor([3, 0, 1, 1]),
    }  # fmt: skip
    return given | integers | {"m": draw(4, 6) > 0, "f": draw(4, 6)}


@cache
def results(dtype: Any, first: int) -> dict[str, tuple[Any, Any]]:
    """What torch and a plan give for some cases, which are one graph."""
    chosen = dict(list(CASES.items())[first : first + TOGETHER])
    given = tensors(dtype)
    names = list(given)

    def run(*args: Any) -> Any:
        values = dict(zip(names, args, strict=True))
        return {name: case(values) for name, case in chosen.items()}

    wanted = run(*given.values())
    graph = make_fx(run, tracing_mode="fake")(*given.values())
    compiled = CompiledGraph(graph, "rows", Settings(strict=True))
    spec = torch.utils._pytree.tree_structure(wanted)
    found = torch.utils._pytree.tree_unflatten(list(compiled([x.clone() for x in given.values()])), spec)
    return {name: (wanted[name], found[name]) for name in chosen}


def test_each_row_has_a_case() -> None:
    assert set(TABLE) == CASES.keys() | UNSEEN


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_row_gives_what_torch_gives(name: str, dtype: Any) -> None:
    place = list(CASES).index(name)
    wanted, found = results(dtype, place - place % TOGETHER)[name]
    epsilon = torch.finfo(dtype).eps
    torch.testing.assert_close(found, wanted, rtol=max(8 * epsilon, 1e-6), atol=8 * epsilon, equal_nan=True)
