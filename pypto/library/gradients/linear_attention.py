"""Composes the gated delta rule in chunks of 64 tokens, because products of matrices in a chunk are fast."""

from __future__ import annotations

from typing import Any, Final

from pypto.library.gradients.rule import Tensors

CHUNK: Final = 64


def in_chunks(torch: Any, x: Any) -> Any:
    """Returns tokens (b, h, t, ...) as chunks (b, h, n, 64, ...), the last of which is padded with zeros."""
    padding = [0, 0] * (x.ndim - 3) + [0, -x.shape[2] % CHUNK]
    return torch.nn.functional.pad(x, padding).unflatten(2, (-1, CHUNK))


def gated_delta_sequence(torch: Any, v: Any) -> Tensors:
    """Computes `gated_delta_sequence` in torch, by a triangular solve and products of matrices in each chunk."""
    group, unit = v.v.shape[1] // v.q.shape[1], v.q.shape[3] ** -0.5
    q, k = (x * torch.rsqrt(x.square().sum(3, keepdim=True) + 1e-6) for x in (v.q, v.k))
    q, k = (in_chunks(torch, x.repeat_interleave(group, 1)) for x in (q * unit, k))
    values, beta = in_chunks(torch, v.v), in_chunks(torch, v.beta)[..., None]
    total = in_chunks(torch, v.gate).cumsum(3)
    decay = (total[..., None] - total[..., None, :]).tril().exp().tril()
    eye = torch.eye(CHUNK, dtype=k.dtype, device=k.device)
    inverse = eye + ((k * beta) @ k.transpose(3, 4) * decay).tril(-1)
    u, w = (torch.linalg.solve_triangular(inverse, x, upper=False, unitriangular=True)
            for x in (values * beta, k * beta * total.exp()[..., None]))  # fmt: skip
    state, results = v.state.transpose(2, 3), []
    for i in range(q.shape[2]):
        fresh, sums = u[:, :, i] - w[:, :, i] @ state, total[:, :, i, :, None]
        inside = q[:, :, i] @ k[:, :, i].transpose(2, 3) * decay[:, :, i]
        results.append((q[:, :, i] * sums.exp()) @ state + inside @ fresh)
        last = sums[:, :, -1:]
        state = state * last.exp() + (k[:, :, i] * (last - sums).exp()).transpose(2, 3) @ fresh
    out = torch.cat(results, 2)[:, :, : v.q.shape[2]] if results else torch.zeros_like(v.v)
    return {"out": out, "last": state.transpose(2, 3)}
