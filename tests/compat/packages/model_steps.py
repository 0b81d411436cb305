"""Models of flash-linear-attention: training steps against plain recurrences, and decoding against whole sequences."""

from __future__ import annotations

from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch

from tests.compat.packages.agreement import Check, double, later
from tests.compat.world import close

PACKAGE = "flash-linear-attention"
SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 2, "vocab_size": 128, "intermediate_size": 96,
    "fuse_cross_entropy": False,
}  # fmt: skip
TOKENS = torch.randint(3, 128, (2, 70), generator=torch.Generator().manual_seed(1))


def made(name: str, **sizes: Any) -> Any:
    """A model of tiny sizes with random weights."""
    models = import_module("fla.models")
    return getattr(models, f"{name}ForCausalLM")(getattr(models, f"{name}Config")(**{**SMALL, **sizes})).float()


def plain_gla(q: Any, k: Any, v: Any, g: Any = None, gk: Any = None, **_: Any) -> Any:
    naive = import_module("fla.ops.gla.naive").naive_recurrent_gla
    gates = g if gk is None else gk
    return naive(*map(lifted, (q, k, v, gates)))[0].to(q.dtype), None


def plain_delta(
    q: Any, k: Any, v: Any, g: Any, beta: Any, A_log: Any, dt_bias: Any, allow_neg_eigval: bool, **_: Any
) -> Any:
    """The layer leaves norms of queries and keys, and both gates, to the operator."""
    naive = import_module("fla.ops.gated_delta_rule.naive").naive_recurrent_gated_delta_rule
    assert not allow_neg_eigval
    q, k, v, g, beta, A_log, dt_bias = map(lifted, (q, k, v, g, beta, A_log, dt_bias))
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    decay = -A_log.exp() * torch.nn.functional.softplus(g + dt_bias)
    return naive(q, k, v, beta.sigmoid(), decay, scale=q.shape[-1] ** -0.5)[0].float(), None


def lifted(x: Any) -> Any:
    """In double precision, with its gradient."""
    return x.double()


def trained(name: str, layer: str, operators: tuple[str, ...], plain: Any, **sizes: Any) -> Check:
    """Loss and gradients of a step, where the operators are kernels and where they are a plain recurrence."""

    def check() -> None:
        model = made(name, **sizes).train()
        loss, found = step(model)
        with patch.multiple(f"fla.layers.{layer}", **dict.fromkeys(operators, plain)):
            wanted_loss, wanted = step(model)
        close(loss, wanted_loss, 1e-5)
        for key, slope in wanted.items():
            close(found[key], slope, 1e-3)

    return later(check)


def step(model: Any) -> tuple[Any, dict[str, Any]]:
    model.zero_grad()
    loss = model(input_ids=TOKENS, labels=TOKENS).loss
    loss.backward()
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def decoded(name: str, **sizes: Any) -> Check:
    """Logits of one token after another, with the cache, are those of the whole sequence."""

    def check() -> None:
        model, tokens = made(name, **sizes).eval(), TOKENS[:, :20]
        with torch.no_grad():
            whole = model(input_ids=tokens).logits
            out = model(input_ids=tokens[:, :10], use_cache=True)
            close(out.logits, double(whole[:, :10]), 1e-4)
            for i in range(10, 20):
                out = model(input_ids=tokens[:, i : i + 1], past_key_values=out.past_key_values, use_cache=True)
                close(out.logits[:, 0], double(whole[:, i]), 1e-4)

    return later(check)


GLA = {"expand_k": 1.0, "expand_v": 1.0}
DELTA = {"head_dim": 32, "expand_v": 1}
MAMBA = {"num_heads": 4, "head_dim": 32, "state_size": 16, "expand": 2, "chunk_size": 64}

STEPS: dict[str, Check] = {
    "GLAForCausalLM, a training step": trained(
        "GLA", "gla", ("chunk_gla", "fused_chunk_gla", "fused_recurrent_gla"), plain_gla, **GLA
    ),
    "GLAForCausalLM, decoding": decoded("GLA", **GLA),
    "GatedDeltaNetForCausalLM, a training step": trained(
        "GatedDeltaNet",
        "gated_deltanet",
        ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"),
        plain_delta,
        **DELTA,
    ),
    "GatedDeltaNetForCausalLM, decoding": decoded("GatedDeltaNet", **DELTA),
    "Mamba2ForCausalLM, decoding": decoded("Mamba2", **MAMBA),
}
