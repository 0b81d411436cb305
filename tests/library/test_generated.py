"""What kernels of the library become: no results are collected number by number."""

from __future__ import annotations

import re

import numpy as np

from pypto import library as lib
from pypto.library.kernels.attention.sparse import sparse_kernel


def test_results_of_sparse_attention_are_transposed_in_registers() -> None:
    values = lib.rows["sparse_attention"].sample(np.random.default_rng(0))
    q_nope, keys, topk = values["q_nope"], values["keys"], values["topk"]
    arrays = [values[name] for name in ("keys", "rope")]
    found = sparse_kernel.inspect(
        q_nope, values["q_rope"], *arrays, None, topk, values["table"], values["lengths"], np.empty_like(q_nope), 2,
        1.0, C=q_nope.shape[2], R=values["q_rope"].shape[2], K=topk.shape[1], PAGE=keys.shape[1], GROUPS=0, BM=128,
        BK=64,
    )  # fmt: skip
    (llvm,) = [level.text for level in found.levels if level.name == "llvm-ir"]
    assert re.search(r"masked\.gather\.v\d+i\d+", llvm)  # numbers of pages
    assert not re.search(r"masked\.gather\.v\d+(f32|bf16)", llvm)
