"""Kernels of attention: scores, softmax and the sum of values in one pass over keys.

Sequences: `attention`, `varlen`, `block_sparse`, `linear_attention`, `recurrent`, `rope`. Caches: `paged`, `cache`,
`cache_on_cube`, `window`. Chosen rows: `indexer`, `sparse`, `gathered`, `compressor`. Projections: `mla`, `mla_split`,
`v4`.
"""
