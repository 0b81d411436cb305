"""Decoding generates text token by token, at the speed at which memory delivers the weights.

Read `weights` (column tiles), `fused_products` (products with the same inputs), `attention` and `cache` (keys and
values), `sampling` (the choice of a token) and `decoder`.
"""
