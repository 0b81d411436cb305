"""Rows of attention, and of what stands beside it in a model: rotary embedding, caches, indexers.

Whole sequences: `softmax_attention`, `varlen`, `block_sparse`, `linear_attention`, `recurrent`, `rope`. Caches:
`paged`, `int8_cache`, `window`. Multi-head latent attention: `mla`, `indexer`, `sparse`, `compression`, `v4`.
"""
