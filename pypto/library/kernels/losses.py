# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Losses over large vocabularies, which read a row once or twice."""

from __future__ import annotations

import math

import pypto as pto


@pto.jit
def cross_entropy_kernel(logits, labels, loss, BLOCK: pto.constexpr):
    """Computes the largest logit and the sum of exponentials in one pass; rows with label -100 are ignored."""
    row, n = pto.program_id(0), logits.shape[1]
    most = pto.full((), -math.inf, pto.float32)
    total = pto.zeros((), pto.float32)
    for j in range(0, n, BLOCK):
        t = pto.load(logits, (row, j), (1, BLOCK), pad=-math.inf).to(pto.float32)
        new = pto.maximum(most, pto.max(t))
        total = total * pto.exp(most - new) + pto.sum(pto.exp(t - new))
        most = new
    label = labels[row]
    at = pto.maximum(label, 0)
    loss[row] = pto.where(label < 0, 0.0, pto.log(total) + most - logits[row, at].to(pto.float32))


@pto.jit
def cross_entropy_backward_kernel(logits, labels, loss, dloss, dlogits, BLOCK: pto.constexpr):
    """Computes softmax from the loss in one pass; rows with a negative label give zeros."""
    row, n = pto.program_id(0), logits.shape[1]
    label = labels[row]
    at = pto.maximum(label, 0)
    total = pto.where(label < 0, math.inf, loss[row] + logits[row, at].to(pto.float32))
    d = pto.where(label < 0, 0.0, dloss[row])
    for j in range(0, n, BLOCK):
        part = pto.exp(logits[row, j : j + BLOCK].to(pto.float32) - total) * d
        column = j + pto.arange(0, BLOCK)
        dlogits[row, j : j + BLOCK] = pto.where(column == at, part - d, part).to(dlogits.dtype)


@pto.jit
def kl_divergence_kernel(log_q, p, loss, BLOCK: pto.constexpr):
    row, n = pto.program_id(0), p.shape[1]
    total = pto.zeros((), pto.float32)
    for j in range(0, n, BLOCK):
        u, v = p[row, j : j + BLOCK].to(pto.float32), log_q[row, j : j + BLOCK].to(pto.float32)
        safe = pto.where(u > 0, u, 1.0)
        total += pto.sum(pto.where(u > 0, u * (pto.log(safe) - v), 0.0))
    loss[row] = total


def cross_entropy(logits, labels, loss):
    """Computes loss = log sum exp of a row, minus its logit at the label."""
    cross_entropy_kernel[(logits.shape[0],)](
        logits, labels, loss, BLOCK=min(4096, pto.next_power_of_2(logits.shape[1]))
    )


def cross_entropy_backward(logits, labels, loss, dloss, dlogits):
    """Computes dlogits = (softmax - indicator of the label) * dloss."""
    block = min(4096, pto.next_power_of_2(logits.shape[1]))
    cross_entropy_backward_kernel[(logits.shape[0],)](logits, labels, loss, dloss, dlogits, BLOCK=block)


def kl_divergence(log_q, p, loss):
    """Computes loss = sum of p (log p - log q) over a row."""
    kl_divergence_kernel[(p.shape[0],)](log_q, p, loss, BLOCK=min(4096, pto.next_power_of_2(p.shape[1])))
