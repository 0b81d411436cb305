"""FlagGems' operators beside torch's own in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, later, same

PACKAGE = "flag-gems"
Inputs = Callable[[], tuple[Any, ...]]
randn, rand = torch.randn, torch.rand


def gems() -> Any:
    """The package, which is told first that there is a CPU."""
    from pypto.compat.devices import install

    install()
    import flag_gems  # type: ignore[import-not-found]

    return flag_gems


def op(
    name: str, inputs: Inputs, *more: Any, reference: Any = None, tolerance: float = 1e-5, named: Any = None
) -> Check:
    """An operator on tensors, then on other arguments."""

    def check() -> None:
        function, plain, given = getattr(gems(), name), reference or getattr(torch, name), named or {}
        same(lambda *xs: function(*xs, *more, **given), lambda *xs: plain(*xs, *more, **given), *inputs(),
             tolerance=tolerance)  # fmt: skip

    return later(check)


def number() -> tuple[Any, ...]:
    return (randn(7, 130),)


def two() -> tuple[Any, ...]:
    return randn(7, 130), randn(7, 130)


def three() -> tuple[Any, ...]:
    return randn(7, 130), randn(7, 130), randn(7, 130).abs() + 0.5


def positive() -> tuple[Any, ...]:
    return (rand(7, 130) + 0.1,)


def share() -> tuple[Any, ...]:
    return (rand(7, 130) * 0.9 + 0.05,)


def flags() -> tuple[Any, ...]:
    return (rand(7, 130) > 0.4,)


def whole() -> tuple[Any, ...]:
    return (torch.randint(-100, 100, (7, 130), dtype=torch.int32),)


def wholes() -> tuple[Any, ...]:
    return *whole(), *whole()


def matrices() -> tuple[Any, ...]:
    return randn(33, 48), randn(48, 65)


def listed(name: str) -> Check:
    """An operator on a list of tensors."""
    return later(lambda: same(lambda *xs: getattr(gems(), name)(xs), lambda *xs: getattr(torch, name)(xs), *two()))


def layer_norm(x: Any, shape: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    """Means and deviations have no dimension of extent 1."""
    y, *statistics = torch.native_layer_norm(x, shape, weight, bias, 1e-5)
    return y, *(s.squeeze(-1) for s in statistics)


def every(names: str, inputs: Inputs, *more: Any, **given: Any) -> dict[str, Check]:
    return {name: op(name, inputs, *more, **given) for name in names.split()}


OPERATORS: dict[str, Check] = {
    **every("abs absolute ceil cos erf exp exp2 neg sin square tanh sigmoid relu isfinite isinf isnan signbit", number),
    **every("atan expm1 cosh tan angle round", number),
    **every("log rsqrt sqrt reciprocal log10", positive),
    **every("acos logit", share),
    **every("bitwise_not", whole),
    **every("logical_not", flags),
    **every("add sub mul maximum minimum atan2 copysign hypot logaddexp fmin eq ne lt le gt ge", two),
    **every("logical_and logical_or logical_xor", lambda: (*flags(), *flags())),
    **every("addcmul addcdiv", three),
    **every("sum mean prod max min all any trace argmax argmin amax count_nonzero", number),
    **every("mm", matrices),
    **every("dot", lambda: (randn(300), randn(300))),
    **every("mv", lambda: (randn(33, 48), randn(48))),
    **every("bmm", lambda: (randn(3, 20, 30), randn(3, 30, 40))),
    **every("addmm", lambda: (randn(65), *matrices())),
    **every("baddbmm", lambda: (randn(3, 20, 40), randn(3, 20, 30), randn(3, 30, 40))),
    **every("addmv", lambda: (randn(33), randn(33, 48), randn(48))),
    **every("addr", lambda: (randn(33, 48), randn(33), randn(48))),
    **every("diag", lambda: (randn(9, 12),)),
    **every("kron", lambda: (randn(4, 5), randn(3, 2))),
    **every("tril triu", number, 3),
    **every("cumsum cummax cummin", number, 1),
    **every("sort", number),
    **every("topk", number, 5),
    **every("flip", number, (0, 1)),
    **every("roll", number, 3, 1),
    **every("repeat_interleave_self_int", number, 3, reference=torch.repeat_interleave),
    **every("tile", number, (2, 3)),
    **every("clamp", number, -0.5, 0.7),
    **every("clamp_min", number, 0.1),
    **every("nan_to_num", lambda: (torch.where(rand(7, 130) > 0.5, randn(7, 130), torch.nan),)),
    **every("masked_fill", lambda: (randn(7, 130), rand(7, 130) > 0.5), 2.5),
    **every("masked_select", lambda: (randn(7, 130), rand(7, 130) > 0.5)),
    **every("gather", lambda: (randn(7, 130), 1, torch.randint(0, 130, (7, 20)))),
    **every("where_self", lambda: (rand(7, 130) > 0.5, *two()), reference=torch.where),
    **every("isclose", two),
    **every("nonzero", flags),
    **every("unique_consecutive", lambda: (torch.randint(0, 3, (100,)),)),
    **every("bincount", lambda: (torch.randint(0, 9, (200,)),)),
    "softmax": op("softmax", number, -1, reference=lambda x, axis: x.softmax(axis)),
    "log_softmax": op("log_softmax", number, -1, reference=lambda x, axis: x.log_softmax(axis)),
    "gelu": op("gelu", number, reference=F.gelu),
    "silu": op("silu", number, reference=F.silu),
    "elu": op("elu", number, reference=F.elu),
    "celu": op("celu", number, reference=F.celu),
    "selu": op("selu", number, reference=F.selu),
    "relu6": op("relu6", number, reference=F.relu6),
    "softplus": op("softplus", number, reference=F.softplus),
    "softshrink": op("softshrink", number, reference=F.softshrink),
    "hardsigmoid": op("hardsigmoid", number, reference=F.hardsigmoid),
    "log_sigmoid": op("log_sigmoid", number, reference=F.logsigmoid),
    "threshold": op("threshold", number, 0.2, -3.0, reference=F.threshold),
    "glu": op("glu", number, reference=F.glu),
    "mse_loss": op("mse_loss", two, reference=F.mse_loss),
    "prelu": op("prelu", lambda: (randn(3, 5, 7), rand(5)), reference=F.prelu),
    "pow_tensor_scalar": op("pow_tensor_scalar", positive, 1.7, reference=torch.pow),
    "pow_tensor_tensor": op("pow_tensor_tensor", lambda: (*positive(), randn(7, 130)), reference=torch.pow),
    "lerp_scalar": op("lerp_scalar", two, 0.3, reference=torch.lerp),
    "true_divide": op("true_divide", lambda: three()[1:], reference=torch.true_divide),
    "floor_divide": op("floor_divide", lambda: three()[1:]),
    "remainder": op("remainder", lambda: three()[1:]),
    "sum_dim": op("sum_dim", number, [1], reference=torch.sum),
    "mean_dim": op("mean_dim", number, [1], reference=torch.mean),
    "max_dim": op("max_dim", number, 1, reference=torch.max),
    "min_dim": op("min_dim", number, 1, reference=torch.min),
    "prod_dim": op("prod_dim", number, 1, reference=torch.prod),
    "std": op("std", number, 1),
    "var_mean": op("var_mean", number, [1]),
    "vector_norm": op("vector_norm", number, reference=torch.linalg.vector_norm),
    "layer_norm": op("layer_norm", lambda: (randn(7, 130), (130,), randn(130), randn(130)), reference=layer_norm),
    "rms_norm": op("rms_norm", lambda: (randn(7, 130), (130,), randn(130)), reference=F.rms_norm, named={"eps": 1e-5}),
    "group_norm": op(
        "group_norm",
        lambda: (randn(3, 8, 20), randn(8), randn(8)),
        3,
        8,
        20,
        4,
        1e-5,
        reference=torch.native_group_norm,
    ),
    "embedding": op(
        "embedding",
        lambda: (randn(20, 40), torch.randint(0, 20, (3, 5))),
        reference=lambda w, index: F.embedding(index, w),
    ),
    "index_select": op("index_select", lambda: (randn(9, 40), 0, torch.randint(0, 9, (5,)))),
    "cat": listed("cat"),
    "stack": listed("stack"),
    "hstack": listed("hstack"),
    "pad": op("pad", number, (1, 2), reference=F.pad),
    "conv1d": op("conv1d", lambda: (randn(2, 4, 30), randn(6, 4, 3), randn(6)), reference=F.conv1d),
    "conv2d": op("conv2d", lambda: (randn(2, 4, 12, 14), randn(6, 4, 3, 3), randn(6)), reference=F.conv2d),
    "avg_pool2d": op("avg_pool2d", lambda: (randn(2, 3, 12, 14),), 2, reference=F.avg_pool2d),
    "max_pool2d_with_indices": op(
        "max_pool2d_with_indices",
        lambda: (randn(2, 3, 12, 14),),
        2,
        reference=lambda x, size: F.max_pool2d(x, size, return_indices=True),
    ),
    "pixel_unshuffle": op("pixel_unshuffle", lambda: (randn(2, 3, 12, 14),), 2),
    "scaled_dot_product_attention": op(
        "scaled_dot_product_attention",
        lambda: (randn(1, 2, 64, 64), randn(1, 2, 64, 64), randn(1, 2, 64, 64)),
        reference=F.scaled_dot_product_attention,
        tolerance=1e-3,
    ),
}
