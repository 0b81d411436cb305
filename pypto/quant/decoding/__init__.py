"""Decoding: weights in tiles, kernels for one row and for many, a cache of keys and values, and what a token takes."""
