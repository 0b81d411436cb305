"""flash-linear-attention's operators beside the plain ones that the package brings, in float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, differentiable, first, later, same

PACKAGE = "flash-linear-attention"
randn = torch.randn
B, T, H, K, V, M = 1, 70, 2, 32, 32, 16
SCALE = K**-0.5
TOLERANCE = 2e-3  # of the greatest value: products of rows are summed in another order
HALF = 3e-2  # where an operator takes bfloat16 alone
OPTIONS = ("plain", "tolerance", "values", "half", "heads_first")  # of `op`; others go to the operator


def of(dotted: str) -> Any:
    """An object by its module and its name."""
    module, _, name = dotted.rpartition(".")
    return getattr(import_module(module), name)


def features(width: int = K) -> Any:
    return randn(B, T, H, width) * 0.5


def unit() -> Any:
    return F.normalize(randn(B, T, H, K), dim=-1)


def decay(*width: int) -> Any:
    return F.logsigmoid(randn(B, T, H, *width) + 2)


def gate(*width: int) -> Any:
    return randn(B, T, H, *width).sigmoid()


def op(name: str, naive: str, inputs: Callable[[], tuple[Any, ...]], order: str = "", **given: Any) -> Check:
    """An operator and a plain one. `order` gives the plain one's inputs, as letters of the operator's."""

    def check() -> None:
        values, function, plain = inputs(), of(f"fla.ops.{name}"), of(f"fla.ops.{naive}")
        if given.get("half"):
            values = tuple(x.bfloat16() for x in values)
        named = {k: v for k, v in given.items() if k not in OPTIONS}

        def reference(*args: Any) -> Any:
            if given.get("heads_first"):
                args = tuple(x.transpose(1, 2) for x in args)
            result = first(plain(*[args[int(i)] for i in order] if order else args, **given.get("plain", {})))
            return result.transpose(1, 2) if given.get("heads_first") else result

        tolerance = given.get("tolerance", HALF if given.get("half") else TOLERANCE)
        if given.get("values"):
            same(lambda *xs: first(function(*xs, **named)), reference, *values, tolerance=tolerance)
        else:
            differentiable(function, reference, *values, tolerance=tolerance, **named)

    return later(check)


def qkv() -> tuple[Any, Any, Any]:
    return features(), features(), features(V)


def gated() -> tuple[Any, ...]:
    return *qkv(), decay(K)


def simple() -> tuple[Any, ...]:
    return *qkv(), decay()


def delta() -> tuple[Any, ...]:
    return features(), unit(), features(V), gate()


def gated_delta() -> tuple[Any, ...]:
    return features(), unit(), features(V), decay(), gate()


def kda() -> tuple[Any, ...]:
    return features(), unit(), features(V), decay(K), gate()


def low_rank() -> tuple[Any, ...]:
    a = unit()
    return *qkv(), a, -a * gate(K), decay(K)


def slots() -> tuple[Any, ...]:
    return *qkv(), features(M), decay(M)


def comba() -> tuple[Any, ...]:
    """Two whole chunks: the plain operator takes no part of one."""
    q, k, p = (F.normalize(randn(B, 128, H, K), dim=-1) for _ in range(3))
    return q, k, randn(B, 128, H, V), p, F.logsigmoid(randn(B, 128, H) + 2), randn(B, 128, H).sigmoid()


def square() -> tuple[Any, ...]:
    return features(), features(), features(K)


RETENTION = torch.log1p(-(2.0 ** (-5 - torch.arange(H).double())))


def retention(q: Any, k: Any, v: Any) -> Any:
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla  # type: ignore[import-not-found]

    return naive_recurrent_simple_gla(q, k, v, RETENTION[None, None].expand(B, T, H), scale=SCALE)


def lightning(q: Any, k: Any, v: Any) -> Any:
    """Slopes of layer 1 of 4, as the package sets them."""
    from fla.ops.simple_gla.naive import naive_recurrent_simple_gla

    g = -(8 / H * (1 - 1 / 4)) * torch.arange(H).double()
    return naive_recurrent_simple_gla(q, k, v, g[None, None].expand(B, T, H), scale=SCALE)


def against(name: str, reference: Any, inputs: Callable[[], tuple[Any, ...]], **given: Any) -> Check:
    return later(lambda: differentiable(of(f"fla.ops.{name}"), reference, *inputs(), tolerance=TOLERANCE, **given))


GLA, SIMPLE = "gla.naive.naive_recurrent_gla", "simple_gla.naive.naive_recurrent_simple_gla"
GDN, DELTA = "gated_delta_rule.naive.naive_recurrent_gated_delta_rule", "delta_rule.naive.delta_rule_recurrence"
LINEAR, KDA = "linear_attn.naive.naive_recurrent_linear_attn", "kda.naive.naive_recurrent_kda"
COMBA = "comba.naive.naive_chunk_comba"
GSA = "gsa.naive.naive_recurrent_gsa"
SCALED: dict[str, Any] = {"plain": {"scale": SCALE}}

OPERATORS: dict[str, Check] = {
    "chunk_gla": op("chunk_gla", GLA, gated),
    "fused_recurrent_gla": op("fused_recurrent_gla", GLA, gated),
    "chunk_simple_gla": op("chunk_simple_gla", SIMPLE, simple, **SCALED),
    "fused_recurrent_simple_gla": op("fused_recurrent_simple_gla", SIMPLE, simple, **SCALED),
    "fused_chunk_simple_gla": op("fused_chunk_simple_gla", SIMPLE, simple, **SCALED),
    "parallel_simple_gla": op("parallel_simple_gla", SIMPLE, simple, **SCALED),
    "chunk_retention": against("chunk_retention", retention, qkv),
    "fused_recurrent_retention": against("fused_recurrent_retention", retention, qkv),
    "fused_chunk_retention": against("fused_chunk_retention", retention, qkv),
    "parallel_retention": against("parallel_retention", retention, qkv),
    "chunk_lightning_attn": against("chunk_lightning_attn", lightning, qkv, layer_idx=1, num_layers=4),
    "fused_recurrent_lightning_attn": against(
        "fused_recurrent_lightning_attn", lightning, qkv, layer_idx=1, num_layers=4
    ),
    "chunk_linear_attn": op("chunk_linear_attn", LINEAR, qkv, normalize=False, **SCALED),
    "fused_chunk_linear_attn": op("fused_chunk_linear_attn", LINEAR, qkv, normalize=False, **SCALED),
    "fused_recurrent_linear_attn": op("fused_recurrent_linear_attn", LINEAR, qkv, normalize=False, **SCALED),
    "chunk_delta_rule": op("chunk_delta_rule", DELTA, delta, half=True, heads_first=True),
    "fused_recurrent_delta_rule": op("fused_recurrent_delta_rule", DELTA, delta, heads_first=True),
    "chunk_gated_delta_rule": op("chunk_gated_delta_rule", GDN, gated_delta, "01243", **SCALED),
    "fused_recurrent_gated_delta_rule": later(
        lambda: same(
            lambda q, k, v, g, b: of("fla.ops.fused_recurrent_gated_delta_rule")(q, k, v, g=g, beta=b)[0],
            lambda q, k, v, g, b: of(f"fla.ops.{GDN}")(q, k, v, b, g, scale=SCALE)[0],
            *gated_delta(),
            tolerance=TOLERANCE,
        )
    ),
    "chunk_kda": op("chunk_kda", KDA, kda, **SCALED),
    "fused_recurrent_kda": op("fused_recurrent_kda", KDA, kda, values=True, **SCALED),
    "chunk_gdn2": op(
        "gdn2.chunk_gdn2",
        "gdn2.naive.naive_recurrent_gdn2",
        lambda: (features(), unit(), features(V), decay(K), gate(K), gate(V)),
        **SCALED,
    ),
    "fused_recurrent_gdn2": op(
        "gdn2.fused_recurrent_gdn2",
        "gdn2.naive.naive_recurrent_gdn2",
        lambda: (features(), unit(), features(V), decay(K), gate(K), gate(V)),
        values=True,
        **SCALED,
    ),
    "chunk_gsa": op("chunk_gsa", GSA, slots, **SCALED),
    "fused_recurrent_gsa": op("fused_recurrent_gsa", GSA, slots, **SCALED),
    "chunk_abc": op("chunk_abc", "abc.naive.naive_recurrent_abc", lambda: slots()[:4], heads_first=True),
    "chunk_comba": op("chunk_comba", COMBA, comba, **SCALED),
    "fused_recurrent_comba": later(
        lambda: same(
            lambda q, k, v, p, g, beta: of("fla.ops.fused_recurrent_comba")(q, k, p, v, g, beta)[0],
            lambda *xs: of(f"fla.ops.{COMBA}")(*xs, scale=SCALE)[0],
            *comba(),
            tolerance=TOLERANCE,
        )
    ),
    "chunk_dplr_delta_rule": op(
        "chunk_dplr_delta_rule", "generalized_delta_rule.dplr.naive.dplr_recurrence", low_rank, heads_first=True
    ),
    "fused_recurrent_dplr_delta_rule": op(
        "fused_recurrent_dplr_delta_rule",
        "generalized_delta_rule.dplr.naive.dplr_recurrence",
        low_rank,
        values=True,
        heads_first=True,
    ),
    "chunk_iplr_delta_rule": op(
        "chunk_iplr_delta_rule",
        "generalized_delta_rule.iplr.naive.iplr_recurrence",
        lambda: low_rank()[:5],
        heads_first=True,
        values=True,
    ),
    "fused_recurrent_iplr_delta_rule": op(
        "fused_recurrent_iplr_delta_rule",
        "generalized_delta_rule.iplr.naive.iplr_recurrence",
        lambda: low_rank()[:5],
        heads_first=True,
    ),
    "chunk_hgrn": op(
        "hgrn.chunk_hgrn",
        "hgrn.naive.naive_recurrent_hgrn",
        lambda: (randn(B, T, 64), F.logsigmoid(randn(B, T, 64))),
    ),
    "fused_recurrent_hgrn": op(
        "fused_recurrent_hgrn",
        "hgrn.naive.naive_recurrent_hgrn",
        lambda: (randn(B, T, 64), F.logsigmoid(randn(B, T, 64))),
    ),
    "chunk_gated_delta_product": op(
        "gated_delta_product.chunk_gated_delta_product",
        "gated_delta_product.naive.naive_recurrent_gated_delta_product",
        lambda: (
            features(),
            F.normalize(randn(B, 2 * T, H, K), dim=-1),
            randn(B, 2 * T, H, V),
            decay(),
            randn(B, 2 * T, H).sigmoid(),
        ),
        num_householder=2,
        half=True,
        plain={"scale": SCALE, "num_householder": 2},
    ),
    "parallel_attn": op("parallel_attn", "attn.naive.naive_parallel_attn", square),
    "parallel_forgetting_attn": op(
        "parallel_forgetting_attn", "forgetting_attn.naive.naive_forgetting_attn", lambda: (*square(), decay())
    ),
    "parallel_stickbreaking_attn": op(
        "parallel_stickbreaking_attn", "stickbreaking_attn.naive.naive_stickbreaking_attn", square
    ),
    "parallel_parallax": op(
        "parallel_parallax",
        "parallax.naive.naive_parallax",
        lambda: (features(), features(), features(), features()),
        half=True,
    ),
    "parallel_path_attn": op(
        "parallel_path_attn",
        "path_attn.naive.naive_path_attn",
        lambda: (features(), features(), features(), unit(), gate(), decay()),
        **SCALED,
    ),
    "parallel_based": op(
        "parallel_based",
        "based.naive.naive_parallel_based",
        lambda: (randn(B, T, H, 16), randn(B, T, H, 16), features(V)),
        heads_first=True,
    ),
    "fused_chunk_based": op(
        "fused_chunk_based",
        "based.naive.naive_parallel_based",
        lambda: (randn(B, T, H, 16), randn(B, T, H, 16), features(V)),
        heads_first=True,
    ),
    "parallel_rebased": op(
        "rebased.parallel_rebased",
        "rebased.naive.naive_parallel_rebased",
        lambda: (randn(B, T, H, 16), randn(B, T, H, 16), features(V)),
        heads_first=True,
    ),
    "chunk_mesa_net": op(
        "chunk_mesa_net",
        "mesa_net.naive.naive_mesa_net_exact",
        lambda: (features(), unit(), features(V), decay(), gate(), F.softplus(randn(H, K)) + 0.25),
        "012354",
        values=True,
        tolerance=1e-2,
    ),
    "deltaformer_attn": op(
        "deltaformer.deltaformer_attn", "deltaformer.naive.naive_deltaformer_attn", lambda: (*square(), gate())
    ),
    "fused_attnres": later(
        lambda: differentiable(
            lambda q, a, b, c, w: of("fla.ops.fused_attnres")(q, [a, b, c], w),
            lambda q, a, b, c, w: of("fla.ops.attnres.naive.naive_attnres")(q, [a, b, c], w),
            randn(64),
            randn(B, T, 64),
            randn(B, T, 64),
            randn(B, T, 64),
            randn(64),
            tolerance=TOLERANCE,
        )
    ),
    "chunk_precond_gated_delta_rule": op(
        "chunk_precond_gated_delta_rule",
        "precond_gated_delta_rule.naive.naive_recurrent_precond_gated_delta_rule",
        lambda: (unit(), unit(), features(V), decay(), decay(), gate(), gate()),
        use_qk_l2norm_in_kernel=False,
        values=True,
        **SCALED,
    ),
    "chunk_precond_kda": op(
        "chunk_precond_kda",
        "precond_kda.naive.naive_recurrent_precond_kda",
        lambda: (unit(), unit(), features(V), decay(K), decay(), gate(), gate()),
        values=True,
        **SCALED,
    ),
    "parallel_wall_attn": later(
        lambda: differentiable(
            of("fla.ops.parallel_wall_attn"),
            lambda q, k, v, g: of("fla.ops.wall_attn.naive.naive_wall_attn")(q, k, v, g, scale=SCALE),
            *square(),
            decay(K),
            tolerance=TOLERANCE,
        )
    ),
    "chunk_log_linear_attn": later(
        lambda: same(
            lambda q, k, v, g, levels: of("fla.ops.chunk_log_linear_attn")(q, k, v, g, levels)[0],
            of("fla.ops.log_linear_attn.naive.naive_log_linear_attn"),
            randn(B, 64, 1, 64),
            randn(B, 64, 1, 64),
            randn(B, 64, H, 64),
            F.logsigmoid(randn(B, 64, H)),
            torch.rand(B, 64, H, 11),
            tolerance=TOLERANCE,
        )
    ),
}
