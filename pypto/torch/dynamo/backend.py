"""Registers the backend `pypto` of torch.compile."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pypto.torch.dynamo.compiled import CompiledGraph
from pypto.torch.dynamo.settings import settings

torch: Any = importlib.import_module("torch")
# Ops beyond core ATen's decompositions that are fused better in parts.
DECOMPOSED: Final = (
    "native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional", "native_layer_norm_backward", "native_group_norm_backward",
    "native_batch_norm_backward", "_native_batch_norm_legit", "addmv", "baddbmm",
)  # fmt: skip
# Ops of core ATen's decompositions that stay whole. That of attention gives weights where its backward reads sums.
WHOLE: Final = ("_scaled_dot_product_flash_attention_for_cpu",)


def decompositions() -> dict[Any, Any]:
    """Return torch's decompositions to the ops that have rows."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    more = get_decompositions([getattr(torch.ops.aten, name) for name in DECOMPOSED])
    table = {**core_aten_decompositions(), **more}
    return {op: rule for op, rule in table.items() if op._schema.name.partition("::")[2] not in WHOLE}


def pypto(graph: Any, inputs: Any, *, options: Mapping[str, Any] | None = None, mode: Any = None) -> Any:
    """Compile a graph of torch.compile to plans of kernels: products, attention and what stands around them are fused.

    Operations that have no kernel run in torch between kernels. A warning names each of them once, and
    `pypto.torch.report` lists them.

    Parameters
    ----------
    graph : torch.fx.GraphModule
    inputs : list of torch.Tensor
    options : dict, optional
        ``strict``: an operation without a kernel is an error. ``tune``: the first call searches for the sizes of tiles.
    mode : str, optional
        "default"; "reduce-overhead", which changes nothing, since a plan is replayed in one native call in any mode;
        or "max-autotune", which sets ``tune``.

    Raises
    ------
    WrongSetting
        For an option or a mode that does not exist.
    RunByTorch
        At the first call, under ``strict``.

    Examples
    --------
    >>> import torch
    >>> fast = torch.compile(lambda x: torch.relu(x) * 2, backend="pypto")
    >>> fast(torch.tensor([-1.0, 3.0]))
    tensor([0., 6.])
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    chosen = settings(options, mode)
    compiler = aot_autograd(
        fw_compiler=partial(compiled, chosen, "forward"),
        bw_compiler=partial(compiled, chosen, "backward"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    return compiler(graph, inputs)


def compiled(chosen: Any, name: str, module: Any, inputs: Any) -> CompiledGraph:
    """Compile a graph that AOTAutograd gives."""
    return CompiledGraph(module, name, chosen)
