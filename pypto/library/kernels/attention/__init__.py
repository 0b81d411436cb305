"""Attention kernels: each computes scores, softmax and the sum of values in one pass over the keys.

Read first `attention`, `masked`, `varlen`, `block_sparse`, `linear_attention`, `recurrent` and `rope` (whole
sequences), then `paged`, `cache`, `cache_on_cube` and `window` (caches), `indexer`, `sparse`, `gathered` and
`compressor` (selected rows), and `mla`, `mla_split` and `v4` (projections).
"""
