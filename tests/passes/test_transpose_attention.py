"""Loops that reduce the rows of a product are computed on its transpose."""

import pytest

from pypto.passes.transpose_attention import transpose_attention
from tests.passes.matrices import PRELUDE, load, store
from tests.passes.targets import AVX512

BOUNDS = "%lo: i64 = constant {value = 0} %hi: i64 = constant {value = 64} %st: i64 = constant {value = 32}"
KEYS = load("%keys", "b", "%i", "%zero", (32, 16))


def transposed(function):
    return transpose_attention(function, AVX512)


def queries(rows=32):
    return load("%q", "a", "%zero", "%zero", (rows, 16))


def attention(rows=32, axes="[1]", more="", shape=None):
    """`d = s - max(s)` of the scores `s = q keys^T`, and the sum of `d keys`."""
    top = shape or f"{rows}x1"
    return f"""{PRELUDE} {queries(rows)}
        %acc: tile<{rows}x16xf32> = constant {{value = 0.0}}
        {BOUNDS}
        %total: tile<{rows}x16xf32> = for %lo, %hi, %st, %acc {{ (%i: i64, %sum: tile<{rows}x16xf32>)
          {KEYS}
          %turned: tile<16x32xf32> = permute %keys {{dims = [1, 0]}}
          %s: tile<{rows}x32xf32> = dot %q, %turned
          {more}
          %top: tile<{top}xf32> = max %s {{axes = {axes}, keep_dims = true}}
          %tops: tile<{rows}x32xf32> = broadcast_to %top {{shape = [{rows}, 32]}}
          %d: tile<{rows}x32xf32> = sub %s, %tops
          %next: tile<{rows}x16xf32> = dot %d, %keys, %sum
          yield %next
        }}
        {store("%total", "%zero", "%zero", (rows, 16))}
    """


def test_scores_and_what_comes_of_them_are_transposed(becomes):
    becomes(
        transposed,
        attention(),
        f"""{PRELUDE} {queries()} {BOUNDS}
        %900: tile<16x32xf32> = constant {{value = 0.0}}
        %901: tile<16x32xf32> = permute %q {{dims = [1, 0]}}
        %902: tile<16x32xf32> = for %lo, %hi, %st, %900 {{ (%i: i64, %sum: tile<16x32xf32>)
          {KEYS}
          %903: tile<32x32xf32> = dot %keys, %901
          %904: tile<1x32xf32> = max %903 {{axes = [0], keep_dims = true}}
          %top: tile<32x1xf32> = reshape %904 {{shape = [32, 1]}}
          %905: tile<1x32xf32> = reshape %top {{shape = [1, 32]}}
          %906: tile<32x32xf32> = broadcast_to %905 {{shape = [32, 32]}}
          %907: tile<32x32xf32> = sub %903, %906
          %908: tile<16x32xf32> = permute %keys {{dims = [1, 0]}}
          %909: tile<16x32xf32> = dot %908, %907, %sum
          yield %909
        }}
        %total: tile<32x16xf32> = permute %902 {{dims = [1, 0]}}
        {store("%total", "%zero", "%zero", (32, 16))}
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        attention(rows=16),
        attention(axes="[0]", shape="1x32"),
        attention(more='print_ %s {hex = false, prefix = ""}'),
        attention(more="tile_store %po, %zero, %zero, %so, %one, %ro, %co, %s {masked = false, shape = [32, 32]}"),
    ],
    ids=["few rows", "reduced along columns", "printed", "stored"],
)
def test_loops_that_stay(becomes, text):
    becomes(transposed, text, text)
