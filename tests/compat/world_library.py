"""Rows of the library beside kernels of lightllm for the same work: paged decoding and products of experts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from pypto import library as lib
from tests.compat.world import LIGHTLLM, attention, close, trial

randn = torch.randn
DECODING = "models/llama/triton_kernel/gqa_flash_decoding.py"
BF16 = 1e-2  # of the greatest value


@trial(LIGHTLLM, DECODING)
def library_paged_attention(m: Any) -> None:
    """A page of lightllm is one row: its table names the rows of ours."""
    page, heads, groups, size, lengths = 16, 8, 2, 64, [37, 150, 1]
    keys, values = (randn(40, page, groups, size) for _ in range(2))
    table = torch.randperm(40)[:30].reshape(3, 10).int()
    q = randn(3, heads, size)
    places = (table[:, :, None] * page + torch.arange(page)).reshape(3, -1).int()
    ours = lib.paged_attention(q, keys, values, table, torch.tensor(lengths, dtype=torch.int32))
    state = SimpleNamespace(
        batch_size=3, max_len_in_batch=max(lengths), b_seq_len=torch.tensor(lengths, dtype=torch.int32),
        b_req_idx=torch.arange(3, dtype=torch.int32), req_manager=SimpleNamespace(req_to_token_indexs=places),
    )  # fmt: skip
    flat = [x.reshape(-1, groups, size) for x in (keys, values)]
    theirs = m.gqa_token_decode_attention_flash_decoding(q, state, heads, size, *flat, out=torch.empty_like(q))
    close(ours, theirs, 1e-4)
    for i, length in enumerate(lengths):
        k, v = (x[places[i, :length].long()].repeat_interleave(heads // groups, 1).transpose(0, 1) for x in flat)
        close(ours[i], attention(q[i][:, None], k, v, size**-0.5, causal=False)[:, 0])


@trial(LIGHTLLM, "common/fused_moe/grouped_fused_moe.py")
def library_experts(m: Any) -> None:
    """Ours sorts rows by experts and multiplies ragged groups; theirs reads the rows of an expert by indices."""
    tokens, width, out, experts, k = 70, 96, 160, 6, 3
    x, w = randn(tokens, width).bfloat16(), (randn(experts, width, out) / width**0.5).bfloat16()
    logits = randn(tokens, experts)
    logits[:, 4] = -9  # an expert that nobody chooses
    ids, weights = lib.select_experts(logits, k=k, sigmoid=0)
    assert not (ids == 4).any()
    rows, _, position, ends = lib.permute_tokens(x, ids, experts)
    ours = lib.grouped_matmul(rows, w, ends)
    index = torch.empty(experts, tokens * k, dtype=torch.int32)
    m.moe_align(ids, index)
    routed, count = torch.empty(experts, tokens * k), torch.empty(experts, dtype=torch.int32)
    m.moe_align1(index, weights, routed, count, topk=k)
    assert torch.equal(count.cumsum(0), ends.long())
    theirs = torch.empty(tokens * k, out, dtype=torch.bfloat16)
    sizes = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 1}
    m.grouped_matmul(
        tokens * k, x, None, count, index, routed, w.transpose(1, 2).contiguous(), None, k, theirs, False, False,
        num_warps=4, num_stages=1, **sizes,
    )  # fmt: skip
    close(ours[position.long()], theirs, BF16)
    wanted = torch.einsum("td,tkdn->tkn", x.double(), w[ids.long()].double())
    close(theirs.view(tokens, k, out), wanted, BF16)
    close(lib.combine_experts(ours, position, weights), (wanted * weights[:, :, None]).sum(1), BF16)


@trial(LIGHTLLM, "common/fused_moe/softmax_topk.py")
def library_choice_of_experts(m: Any) -> None:
    x = randn(7, 60)
    ids, weights = lib.select_experts(x, k=4, sigmoid=0, renormalize=0)
    theirs, index = m.softmax_topk(x, 4)
    close(weights, theirs)
    assert torch.equal(ids.long(), index.long())
