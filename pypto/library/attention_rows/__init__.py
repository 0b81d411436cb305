"""Rows of attention, rotary embedding, key-value caches and indexers.

`softmax_attention`, `varlen`, `block_sparse`, `linear_attention`, `recurrent` and `rope` have operators on whole
sequences; `paged`, `int8_cache` and `window` those on caches; `mla`, `indexer`, `sparse`, `compression` and `v4` those
of multi-head latent attention (MLA).
"""
