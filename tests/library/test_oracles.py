"""Operators on tensors of torch, and beside what torch makes of the same."""

from __future__ import annotations

import numpy as np
import pytest

from pypto import library as lib
from pypto.library.row import SMALL, f64
from pypto.library.timing import for_peer, tensors
from pypto.runtime.arrays import array_info

torch = pytest.importorskip("torch")

C, R, PAGE, PAGES = 64, 16, 16, 6


@pytest.mark.torch
@pytest.mark.parametrize("length", [1, PAGE, 5 * PAGE + 3, PAGES * PAGE])
def test_latent_decode_over_all_rows_is_attention_of_torch(length: int) -> None:
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


WITH_PEER = tuple(name for name, row in lib.rows.items() if row.peer is not None)
OFF = {"f32": 1e-4, "bf16": 2e-2, "f16": 2e-3}  # norm of the difference over the norm, by the dtype of the first array


@pytest.mark.torch
@pytest.mark.parametrize("name", WITH_PEER)
def test_row_agrees_with_its_torch_composition(name: str) -> None:
    row = lib.rows[name]
    dtype = str(row.signature.main_dtypes[0])
    arguments = row.sample(np.random.default_rng(0), SMALL, dtype)
    theirs = for_peer(torch, row, arguments)
    given = row.peer(torch, theirs)
    ours = row.results(arguments)
    names = [spec.name for spec in row.signature.outputs]
    results = dict(zip(names, given if isinstance(given, tuple) else (given,), strict=False)) if names else {}
    results |= {key: getattr(theirs, key) for key in row.effects}
    values = {key: x for key, x in results.items() if x.dtype.is_floating_point or x.dtype.itemsize == 1}
    for key, right in (values or results).items():  # beside values, indices say no more, and ties have several
        before = f64(arguments[key]) if key in row.effects else 0.0
        found, wanted = f64(ours[key]) - before, right.detach().double().numpy() - before
        assert np.linalg.norm(found - wanted) <= OFF.get(dtype, 2e-2) * np.linalg.norm(wanted), key


@pytest.mark.torch
@pytest.mark.parametrize("name", tuple(lib.rows))
def test_row_on_tensors_gives_tensors(name: str) -> None:
    row = lib.rows[name]
    values = row.sample(np.random.default_rng(0))
    given = vars(tensors(torch, values))
    found = row(**given)
    outputs = [spec.name for spec in row.signature.outputs]
    given_back = (found,) if len(outputs) == 1 else found or ()
    results = dict(zip(outputs, given_back, strict=True))
    results |= {name: given[name] for name in row.effects}
    for key, right in row.expected(values).items():
        assert isinstance(results[key], torch.Tensor)
        dtype = array_info(results[key], name, key).dtype  # type: ignore[union-attr]
        assert row.tolerance_of(key, dtype).problem(results[key], right) == ""
