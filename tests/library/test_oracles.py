"""Operators beside implementations that are not ours: what torch makes of the same."""

from __future__ import annotations

import numpy as np
import pytest

from pypto import library as lib

C, R, PAGE, PAGES = 64, 16, 16, 6


@pytest.mark.torch
@pytest.mark.parametrize("length", [1, PAGE, 5 * PAGE + 3, PAGES * PAGE])
def test_latent_decode_over_all_rows_is_attention_of_torch(length: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(length)

    def normal(*shape: int) -> object:
        return torch.from_numpy(rng.standard_normal(shape, np.float32)).bfloat16()

    q_nope, q_rope = normal(1, 8, C), normal(1, 8, R)
    keys, rope = normal(PAGES, PAGE, C), normal(PAGES, PAGE, R)
    table = torch.from_numpy(rng.permutation(PAGES)[None].astype(np.int32))
    every = torch.full((1, PAGES * PAGE), -1, dtype=torch.int32)
    every[0, :length] = torch.from_numpy(rng.permutation(length).astype(np.int32))
    found = lib.sparse_attention(q_nope, q_rope, keys, rope, every, table, torch.tensor([length], dtype=torch.int32))
    values, turned = (x[table[0].long()].flatten(0, 1)[:length].float() for x in (keys, rope))
    right = torch.nn.functional.scaled_dot_product_attention(
        torch.cat([q_nope, q_rope], 2).float()[0], torch.cat([values, turned], 1), values
    )
    torch.testing.assert_close(found[0].float(), right, rtol=7.8e-3, atol=5e-3)
