# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Optimisers that update parameters and moments in place."""

from __future__ import annotations

import pypto as pto


@pto.jit
def adamw_kernel(w, g, m, v, step, step_root, rate, beta1, beta2, eps, decay, BLOCK: pto.constexpr):
    """Updates a block; step and step_root are 1 / (1 - beta1^t) and 1 / (1 - beta2^t)."""
    i = pto.program_id(0) * BLOCK
    grad, weight = g[i : i + BLOCK].to(pto.float32), w[i : i + BLOCK].to(pto.float32)
    first = beta1 * m[i : i + BLOCK] + (1 - beta1) * grad
    second = beta2 * v[i : i + BLOCK] + (1 - beta2) * grad * grad
    m[i : i + BLOCK] = first
    v[i : i + BLOCK] = second
    change = first * step / (pto.sqrt(second * step_root) + eps) + decay * weight
    w[i : i + BLOCK] = (weight - rate * change).to(w.dtype)


def adamw(w, g, m, v, t, rate, beta1, beta2, eps, decay):
    """Runs AdamW step number t, which counts from 1."""
    step, step_root = 1 / (1 - beta1**t), 1 / (1 - beta2**t)
    numbers = (step, step_root, rate, beta1, beta2, eps, decay)
    adamw_kernel[(pto.cdiv(w.shape[0], 4096),)](w, g, m, v, *numbers, BLOCK=4096)
