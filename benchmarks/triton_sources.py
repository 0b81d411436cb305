"""What the rows of the suite `triton` share: where the packages' sources are, and a case of kernels and torch's code.

The sources are those of the packages, unedited, as the tests of compatibility bring them (`tests/compat/sources.py`).
"""

from __future__ import annotations

import atexit
import functools
import types
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import imported, quiet
from benchmarks.runner import Case, Impl, Missing


@functools.cache
def sources() -> Any | Missing:
    """The module of the tests that has the packages, and Triton in this process; both stay until it ends."""
    torch: Any = imported("torch")
    if isinstance(torch, Missing):
        return torch
    from tests.compat import sources as packages
    from tests.compat.world import FLA, MAMBA

    vllm = packages.Repository("vllm-project/vllm", "v0.32.0", "vllm", "vllm")
    opened = ExitStack()
    atexit.register(opened.close)
    opened.enter_context(packages.libraries((FLA, MAMBA, vllm)))
    return types.SimpleNamespace(
        load=packages.load, missing=packages.Unavailable, fla=FLA, mamba=MAMBA, vllm=vllm, opened=opened
    )


def finite(result: Any) -> Any:
    """Logits with a number for those that are masked."""
    if isinstance(result, tuple):
        return tuple(map(finite, result))
    return np.nan_to_num(result, neginf=-1e3)


def in_double(function: Callable[[Any, Any], Any], torch: Any) -> Any:
    """What torch's code gives in float64."""
    result = function(torch, torch.float64)
    return finite(tuple(x.numpy() for x in result) if isinstance(result, tuple) else result.numpy())


def case(
    make: Callable[[Any], tuple[Impl, Mapping[str, Impl]]], reference: Callable[[Any], Any],
    view: Callable[[Any], Any] = finite,
) -> Case:  # fmt: skip
    """A row: kernels of a package and torch's code; the reference is torch's in float64."""
    found = sources()
    if isinstance(found, Missing):
        return Case(found, {"torch": found}, lambda: None)
    torch: Any = imported("torch")
    torch.manual_seed(0)
    ours: Impl | Missing
    peers: Mapping[str, Impl | Missing]
    try:
        with quiet():
            ours, peers = make(found)
            ours()
    except (found.missing, AttributeError) as error:  # without a network, a package is a folder without files
        ours = Missing(f"the source cannot be had: {error}")
        peers = {"torch": ours}
    return Case(ours, peers, partial(reference, torch), view=view)
