"""Gradients of the rows of mixtures of experts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pypto.library.gradients.rule import Tensors, called, composed, described, readable, widened


@described("by two products")
def moe_gate(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `moe_gate`, which are two products with the incoming gradient."""
    d = widened(torch, v.d_logits)
    return {"x": d @ widened(torch, v.w), "w": d.T @ widened(torch, v.x)}


def chosen_weights(torch: Any, v: Any) -> Tensors:
    """Computes the weights of the experts that `select_experts` selected."""
    scores = torch.sigmoid(v.logits) if v.sigmoid else torch.softmax(v.logits, 1)
    weights = scores.gather(1, v.ids.long())
    if v.renormalize:
        weights = weights / (weights.sum(1, keepdim=True) + 1e-20)
    return {"weights": weights * v.scaling}


@described("torch differentiates a composition of its operations, for the selected experts; the bias has 0")
def select_experts(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of the logits of `select_experts`; the bias only takes part in the selection and gets 0."""
    gradients = composed(chosen_weights)(torch, SimpleNamespace(**vars(v) | {"wanted": v.wanted & {"logits"}}))
    return gradients if v.bias is None else gradients | {"bias": torch.zeros_like(v.bias)}


@described("by the row `combine_experts`")
def permute_tokens(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `permute_tokens`: it sums over the copies of a token, which lie at `position`."""
    ones = v.d_y.new_ones(v.ids.shape)
    results = called(torch, "combine_experts", y=v.d_y, position=v.position, weights=ones)
    return {"x": results["out"] if results else v.d_y[v.position.long()].unflatten(0, v.ids.shape).sum(1)}


@described("by sums of torch")
def combine_experts(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `combine_experts`: weighted gradients of tokens for rows, dot products for weights."""
    d, weights, place = widened(torch, v.d_out)[:, None], widened(torch, v.weights), v.position.long()
    y = widened(torch, v.y)
    dy = torch.zeros_like(y).index_add(0, place, (weights[..., None] * d).flatten(0, 1))
    return {"y": dy, "weights": (y[place].unflatten(0, weights.shape) * d).sum(2)}


@described(
    "x by the row with transposed weights; the weights by a product for each group, of all rows where torch traces"
)
def grouped_matmul(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `grouped_matmul`, which are two products for each group."""
    gradients: Tensors = {}
    if "x" in v.wanted:
        gradients["x"] = grouped(torch, v.d_y, v.w.transpose(1, 2), v.ends)
    if "w" in v.wanted:
        x, d = widened(torch, v.x), widened(torch, v.d_y)
        if readable(v.ends):
            sizes = torch.nn.functional.pad(v.ends, (1, 0)).diff().tolist()
            products = [a.T @ b for a, b in zip(x.split(sizes), d.split(sizes), strict=True)]
        else:
            products = [torch.where(rows, x, 0).T @ d for rows in members(torch, v.x, v.ends)]
        gradients["w"] = torch.stack(products)
    return gradients


def grouped(torch: Any, x: Any, w: Any, ends: Any) -> Any:
    """Computes `grouped_matmul`, by the row where it takes the dtype."""
    results = called(torch, "grouped_matmul", x=x, w=w, ends=ends)
    if results:
        return results["y"]
    rows = zip(members(torch, x, ends), widened(torch, w), strict=True)
    return sum(torch.where(inside, widened(torch, x), 0) @ matrix for inside, matrix in rows)


def members(torch: Any, x: Any, ends: Any) -> Any:
    """Returns for each group flags of the rows that belong to it, as a column."""
    row, starts = torch.arange(len(x), device=ends.device), torch.nn.functional.pad(ends[:-1], (1, 0))
    return ((row >= starts[:, None]) & (row < ends[:, None]))[..., None].unbind(0)
