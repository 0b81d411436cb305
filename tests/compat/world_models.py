"""Layers of models: mamba's state spaces, unsloth, attorch, xformers and kernl."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.world import ATTORCH, KERNL, MAMBA, UNSLOTH, XFORMERS, attention, close, gradients, rms, trial

randn = torch.randn

# --- mamba ------------------------------------------------------------------------------------------------------------

B, CHUNKS, SIZE, H, P, N = 2, 3, 32, 2, 24, 16
L = CHUNKS * SIZE


def in_chunks(x: Any) -> Any:
    """(B, L, …) as (B, CHUNKS, SIZE, …)."""
    return x.reshape(x.shape[0], CHUNKS, SIZE, *x.shape[2:])


@trial(MAMBA, "ops/triton/ssd_bmm.py")
def chunked_products(m: Any) -> None:
    a, b = randn(B, L, H, N), randn(B, L, H, N)
    wanted = torch.einsum("bclhn,bcshn->bchls", in_chunks(a).double(), in_chunks(b).double())
    close(m._bmm_chunk_fwd(a, b, SIZE), wanted)
    slope = randn(B, CHUNKS, H, SIZE, SIZE)
    wanted = torch.einsum("bchls,bclhn->bcshn", slope.double(), in_chunks(a).double()).reshape(B, L, H, N)
    close(m._bmm_chunk_bwd(a, slope), wanted)


@trial(MAMBA, "ops/triton/ssd_chunk_state.py")
def chunk_states(m: Any) -> None:
    dt, a = randn(B, L, H), -torch.rand(H)
    sums, steps = m._chunk_cumsum_fwd(dt, a, SIZE, dt_softplus=True)
    wanted = in_chunks(F.softplus(dt.double())).permute(0, 3, 1, 2)
    close(steps, wanted)
    close(sums, (wanted * a[:, None, None]).cumsum(-1))
    x, b = randn(B, L, H, P), randn(B, L, 1, N)
    decay = (sums[..., -1:] - sums).double().exp()
    parts = in_chunks(x).double(), in_chunks(b).double().squeeze(3)
    wanted = torch.einsum("bclhp,bcln,bhcl,bhcl->bchpn", *parts, decay, steps.double())
    close(m._chunk_state_fwd(b, x, steps, sums), wanted)


@trial(MAMBA, "ops/triton/ssd_state_passing.py")
def state_passing(m: Any) -> None:
    states, decay = randn(B, CHUNKS, H, 40), -torch.rand(B, H, CHUNKS)
    before, state = [], torch.zeros(B, H, 40, dtype=torch.float64)
    for c in range(CHUNKS):
        before.append(state)
        state = state * decay[:, :, c, None].double().exp() + states[:, c]
    found, last = m._state_passing_fwd(states, decay)
    close(found, torch.stack(before, 1))
    close(last, state)


@trial(MAMBA, "ops/triton/ssd_chunk_scan.py")
def chunk_scan(m: Any) -> None:
    x, c, b = randn(B, L, H, P), randn(B, L, 1, N), randn(B, L, 1, N)
    dt, before = torch.rand(B, H, CHUNKS, SIZE), randn(B, CHUNKS, H, P, N)
    sums = -torch.rand(B, H, CHUNKS, SIZE).cumsum(-1)
    products = torch.einsum("bclgn,bcsgn->bcgls", in_chunks(c).double(), in_chunks(b).double())
    found, _ = m._chunk_scan_fwd(products.float(), x, dt, sums, c, before)
    decay = (sums.double()[..., :, None] - sums.double()[..., None, :]).exp().tril()
    inner = torch.einsum("bcls,bhcls,bhcs,bcshp->bclhp", products[:, :, 0], decay, dt.double(), in_chunks(x).double())
    outer = torch.einsum(
        "bcln,bchpn,bhcl->bclhp", in_chunks(c).double()[:, :, :, 0], before.double(), sums.double().exp()
    )
    close(found, (inner + outer).reshape(B, L, H, P))


@trial(MAMBA, "ops/triton/selective_state_update.py")
def selective_state_update(m: Any) -> None:
    state, x, dt, a = randn(B, 40, N), randn(B, 40), randn(B, 40), -torch.rand(40, N)
    b, c, d, z, bias = randn(B, N), randn(B, N), randn(40), randn(B, 40), randn(40)
    step = F.softplus((dt + bias).double())
    new = state.double() * (step[..., None] * a).exp() + step[..., None] * b[:, None] * x[..., None]
    wanted = ((new * c[:, None]).sum(-1) + x * d) * F.silu(z.double())
    close(m.selective_state_update(state, x, dt, a, b, c, d, z, bias, dt_softplus=True), wanted)
    close(state, new)


@trial(MAMBA, "ops/triton/layernorm_gated.py")
def gated_norm(m: Any) -> None:
    gradients(
        lambda x, z, w: m.rmsnorm_fn(x, w, None, z=z, norm_before_gate=False),
        lambda x, z, w: rms(x * F.silu(z), w), randn(6, 40), randn(6, 40), randn(40),
    )  # fmt: skip


@trial(MAMBA, "ops/triton/k_activations.py")
def mamba_swiglu(m: Any) -> None:
    def reference(xy: Any) -> Any:
        x, y = xy.chunk(2, -1)
        return F.silu(x) * y

    gradients(m.SwiGLU.apply, reference, randn(6, 80))


# --- unsloth ----------------------------------------------------------------------------------------------------------


@trial(UNSLOTH, "kernels/rms_layernorm.py")
def unsloth_rms(m: Any) -> None:
    x, w = randn(5, 100), randn(100)
    y, r = torch.empty(5, 100), torch.empty(5)
    m._rms_layernorm_forward[(5,)](y, 100, x, 100, w, 1, r, 1, 100, 1e-6, BLOCK_SIZE=128, num_warps=4)
    close(y, rms(x.double(), w))
    m._gemma_rms_layernorm_forward[(5,)](y, 100, x, 100, w, 1, r, 1, 100, 1e-6, BLOCK_SIZE=128)
    close(y, rms(x.double(), w + 1))
    a, slope = x.double().requires_grad_(True), randn(5, 100)
    rms(a, w).backward(slope.double())
    m._rms_layernorm_backward[(5,)](slope, 100, slope, 100, x, 100, w, 1, r, 1, 100, 1e-6, GEMMA=False, BLOCK_SIZE=128)
    close(slope, a.grad)


@trial(UNSLOTH, "kernels/layernorm.py")
def unsloth_layer_norm(m: Any) -> None:
    x, w, b = randn(5, 100), randn(100), randn(100)
    y, r, mean = torch.empty(5, 100), torch.empty(5), torch.empty(5)
    m.layernorm_forward[(5,)](y, 100, x, 100, w, b, r, mean, 100, 1e-6, BLOCK_SIZE=128)
    close(y, F.layer_norm(x.double(), (100,), w.double(), b.double(), 1e-6))


@trial(UNSLOTH, "kernels/swiglu.py")
def unsloth_swiglu(m: Any) -> None:
    e, g, h = randn(2, 3, 50), randn(2, 3, 50), torch.empty(2, 3, 50)
    m._fg_kernel[lambda meta: (-(-300 // meta["BLOCK_SIZE"]),)](e, g, h, 300, BLOCK_SIZE=128, LONG_INDEXING=0)
    close(h, F.silu(e.double()) * g)
    e64, g64, slope = e.double().requires_grad_(True), g.double().requires_grad_(True), randn(2, 3, 50)
    (F.silu(e64) * g64).backward(slope.double())
    wanted = F.silu(e.double()) * g
    m._DWf_DW_dfg_kernel[(3,)](slope, e, g, 300, BLOCK_SIZE=128, LONG_INDEXING=0)
    for found, right in zip((slope, e, g), (wanted, g64.grad, e64.grad), strict=True):
        close(found, right)


@trial(UNSLOTH, "kernels/geglu.py")
def unsloth_geglu(m: Any) -> None:
    gate, up, out = randn(2, 3, 50), randn(2, 3, 50), torch.empty(2, 3, 50)
    m._exact_forward_kernel[(3,)](gate, up, out, 300, BLOCK_SIZE=128, LONG_INDEXING=0)
    close(out, F.gelu(gate.double()) * up)
    m._approx_forward_kernel[(3,)](gate, up, out, 300, BLOCK_SIZE=128, LONG_INDEXING=0)
    close(out, F.gelu(gate.double(), approximate="tanh") * up)


@trial(UNSLOTH, "kernels/cross_entropy_loss.py")
def unsloth_cross_entropy(m: Any) -> None:
    logits, labels = randn(6, 300), torch.randint(0, 300, (6,))
    loss, lse = torch.empty(6), torch.empty(6)
    m._cross_entropy_forward[(6,)](
        logits, 300, loss, lse, labels, VOCAB_SIZE=300, BLOCK_SIZE=512,
        DO_SOFTCAPPING=False, SOFTCAP=0.0, DO_LOGIT_SCALING=False, LOGIT_SCALE=0.0,
    )  # fmt: skip
    close(loss, F.cross_entropy(logits.double(), labels, reduction="none"))
    close(lse, logits.double().logsumexp(-1))


# --- attorch ----------------------------------------------------------------------------------------------------------


@trial(ATTORCH, "act_layers.py")
def attorch_activations(m: Any) -> None:
    pairs = (
        (m.Sigmoid, torch.sigmoid), (m.Tanh, torch.tanh), (m.ReLU, F.relu), (m.GELU, F.gelu), (m.SiLU, F.silu),
        (m.Softplus, F.softplus), (m.Mish, F.mish), (m.SELU, F.selu), (m.Hardswish, F.hardswish),
        (m.LogSigmoid, F.logsigmoid), (m.Softsign, F.softsign),
    )  # fmt: skip
    for layer, reference in pairs:
        gradients(layer(), reference, randn(5, 60))


@trial(ATTORCH, "softmax_layers.py")
def attorch_softmax(m: Any) -> None:
    gradients(m.Softmax(dim=-1), lambda x: x.softmax(-1), randn(6, 50))
    gradients(m.LogSoftmax(dim=-1), lambda x: x.log_softmax(-1), randn(6, 50))
    gradients(m.Softmin(dim=-1), lambda x: (-x).softmax(-1), randn(6, 50))


@trial(ATTORCH, "layer_norm_layer.py")
def attorch_layer_norm(m: Any) -> None:
    gradients(m.LayerNorm(50, device="cpu"), lambda x: F.layer_norm(x, (50,)), randn(6, 50))


@trial(ATTORCH, "rms_norm_layer.py")
def attorch_rms_norm(m: Any) -> None:
    gradients(m.RMSNorm(50, eps=1e-6, device="cpu"), lambda x: rms(x, 1), randn(6, 50))


@trial(ATTORCH, "batch_norm_layer.py")
def attorch_batch_norm(m: Any) -> None:
    gradients(m.BatchNorm2d(4, device="cpu"), lambda x: F.batch_norm(x, None, None, training=True), randn(3, 4, 5, 6))


@trial(ATTORCH, "glu_layer.py")
def attorch_glu(m: Any) -> None:
    gradients(m.GLU(dim=-1), F.glu, randn(6, 50))


@trial(ATTORCH, "linear_layer.py")
def attorch_linear(m: Any) -> None:
    layer = m.Linear(40, 30, act_func="relu", device="cpu")
    weight, bias = layer.weight.detach().double(), layer.bias.detach().double()
    weight = weight if weight.shape == (40, 30) else weight.T
    gradients(layer, lambda x: (x @ weight + bias).relu(), randn(6, 40), tolerance=1e-3)


@trial(ATTORCH, "conv_layer.py")
def attorch_conv(m: Any) -> None:
    layer = m.Conv2d(4, 6, 3, padding=1, device="cpu")
    close(layer(randn(1, 4, 8, 8) * 0 + 1), F.conv2d(torch.ones(1, 4, 8, 8), layer.weight, layer.bias, padding=1), 1e-3)


@trial(ATTORCH, "cross_entropy_loss_layer.py")
def attorch_cross_entropy(m: Any) -> None:
    target = torch.randint(0, 20, (7,))
    gradients(lambda x: m.CrossEntropyLoss()(x, target), lambda x: F.cross_entropy(x, target), randn(7, 20))


@trial(ATTORCH, "p_loss_layers.py")
def attorch_losses(m: Any) -> None:
    target = randn(7, 20)
    gradients(lambda x: m.MSELoss()(x, target), lambda x: F.mse_loss(x, target.double()), randn(7, 20))
    gradients(lambda x: m.L1Loss()(x, target), lambda x: F.l1_loss(x, target.double()), randn(7, 20))


# --- xformers ---------------------------------------------------------------------------------------------------------


@trial(XFORMERS, "ops/_triton/rmsnorm_kernels.py")
def xformers_rms(m: Any) -> None:
    x, y, w = randn(6, 100), randn(6, 100), randn(100)
    close(m._rms_norm_forward(x, w, 1e-6), rms(x.double(), w))
    wanted = rms((x + y).double(), w)
    close(m._rms_norm_add_forward(x, y, w, 1e-6), wanted)


@trial(XFORMERS, "ops/_triton/k_index_select_cat.py")
def index_select(m: Any) -> None:
    source, index, out = randn(9, 70), torch.randperm(9)[:5], torch.empty(5, 70)
    m.index_select_cat_fwd_kernel[(5, 1)](out, source, index, 5, 70, 70, 1, BLOCK_SIZE_INDEX=1, BLOCK_SIZE_COL=128)
    close(out, source[index])


@trial(XFORMERS, "ops/_triton/k_scaled_index_add.py")
def scaled_index_add(m: Any) -> None:
    x, source, index, scale = randn(9, 4, 30), randn(5, 4, 30), torch.randperm(9)[:5], randn(30)
    wanted = x.double().index_add(0, index, source.double() * scale, alpha=0.5)
    m.scaled_index_add_fwd_kernel[(5, 4, 1)](
        x, index, source, scale, 0.5, 9, 5, 4, 30, 120, 30, 1,
        BLOCK_SIZE_INDEX=1, BLOCK_SIZE_ROW=1, BLOCK_SIZE_COL=32, HAS_SCALING=True,
    )  # fmt: skip
    close(x, wanted)


# --- kernl, which was written for Triton 2.0 --------------------------------------------------------------------------


@trial(KERNL, "implementations/batched_matmul.py")
def kernl_matmul(m: Any) -> None:
    a, b = randn(2, 40, 128).half(), randn(2, 128, 30).half()
    close(m.batched_matmul(a, b), a.double() @ b.double(), 2e-3)


@trial(KERNL, "implementations/layer_norm.py")
def kernl_layer_norm(m: Any) -> None:
    x, w, b = randn(6, 100), randn(100), randn(100)
    y, mean, deviation = torch.empty(6, 100), torch.empty(6), torch.empty(6)
    m._layer_norm_fwd_fused_multi_pass[(6,)](
        output_ptr=y, a_ptr=x, weight_ptr=w, bias_ptr=b, mean_ptr=mean, rstd_ptr=deviation, output_row_stride=100,
        output_col_stride=1, a_row_stride=100, a_col_stride=1, N_SIZE=100, eps=1e-6, IS_RMSNORM=False,
        HAS_BIAS=True, BLOCK_N_SIZE=64,
    )  # fmt: skip
    close(y, F.layer_norm(x.double(), (100,), w.double(), b.double(), 1e-6))


@trial(KERNL, "implementations/attention_vec_mat.py")
def kernl_vec_mat(m: Any) -> None:
    q, k, v = randn(2, 1, 1, 32), randn(2, 1, 64, 32), randn(2, 1, 64, 32)
    scores, found = torch.empty(2, 1, 1, 64), torch.empty(2, 1, 1, 32)
    m.vec_mat_wrapper(q, k, scores, 0.2, softmax_vec=False, transpose_mat=True)
    m.vec_mat_wrapper(scores, v, found, 1.0, softmax_vec=True, transpose_mat=False)
    close(found, attention(q, k, v, 0.2, causal=False), 1e-3)
