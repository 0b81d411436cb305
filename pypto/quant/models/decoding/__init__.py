"""Decoding generates text token by token, at the speed at which memory delivers the weights.

Read `weights` (column tiles), `kernels` (norm, SwiGLU, rounding), `fused_products` (products with these and residual),
`attention` and `cache` (keys and values), `sampling` (the choice of a token) and `decoder`.
"""
