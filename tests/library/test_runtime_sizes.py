"""One compiled version serves all numbers of tokens and all lengths of caches."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pypto import library as lib
from pypto.jit import Kernel
from pypto.library import kernels
from pypto.runtime.arrays import array_info

# Names of dimensions that are run-time values, where they are others than the number of tokens.
RUNTIME = {
    "quantize_per_channel": ("k", "n"), "adamw": ("n",), "attention": ("b", "n", "m"),
    "attention_int8_cache": ("b", "n", "m"), "topk": ("t",),
    "lightning_indexer": ("b", "p", "pages"), "paged_attention": ("b", "p", "pages"), "scatter_update": ("t", "n"),
    "block_attention": ("b", "t"), "sparse_attention": ("t", "p"), "sparse_attention_quant": ("t", "p"),
    "mla_prolog": ("t", "m"), "mla_prolog_quant": ("t", "m"), "indexer_prolog": ("t", "m"), "sepia": ("n", "h", "w"),
    "sepia_backward": ("n", "h", "w"), "conv_bn_relu": ("n", "h", "w"),
}  # fmt: skip
# A size of 1 and one that is divisible by 16 have versions of their own: the others are odd, or twice an odd number.
ODD = {"b": 3, "t": 5, "n": 41, "m": 71, "p": 5, "pages": 43, "h": 5, "w": 7, "k": 35}
EVEN_TOKENS = (
    "sparse_attention",
    "sparse_attention_quant",
    "compressed_attention",
    "sparse_compressed_attention",
    "compressor",
)  # of two sequences


def versions() -> int:
    """Versions of all kernels of the library that this process has compiled."""
    folder = Path(kernels.__file__).parent
    files = [path.relative_to(folder).with_suffix("") for path in sorted(folder.rglob("[a-z]*.py"))]
    modules = [import_module(".".join(("pypto.library.kernels", *file.parts))) for file in files]
    found = {id(x): x for module in modules for x in vars(module).values() if isinstance(x, Kernel)}
    return sum(len(kernel.specializations) for kernel in found.values())


def sizes(name: str, more: int) -> dict[str, int]:
    """The small size, with other numbers of what may change."""
    found = dict(lib.rows[name].sizes["small"])
    for dim in RUNTIME.get(name, ("t",)):
        found[dim] = ODD[dim] + more + (dim == "t" and name in EVEN_TOKENS) + (10 * more if dim == "pages" else 0)
    if name == "combine_experts":
        found["m"] = found["t"] * found["k"]
    return found


@pytest.mark.parametrize("name", lib.rows)
def test_another_length_compiles_nothing(name: str) -> None:
    row, rng = lib.rows[name], np.random.default_rng(0)
    first = row.signature.main_dtypes[0]
    row(**row.values(rng, SimpleNamespace(**sizes(name, 0)), first))
    before = versions()
    values = row.values(rng, SimpleNamespace(**sizes(name, 2)), first)
    found: dict[str, Any] = row.results(values)
    assert versions() == before
    for key, right in row.expected(values).items():
        info = array_info(found[key], name, key)
        assert info is not None
        assert row.tolerance_of(key, info.dtype).problem(found[key], right) == ""
