"""Kernels of the library in pypto's kernel language, each beside the function that launches it on arrays.

Read `norms` first, then `activations`, `losses`, `optim`, `residual`, `hadamard` and `image`. Matrix products are in
`products`, `gemv` and `split_k_gemv`, experts in `moe`, `permutation` and `ragged`, selection in `topk` and
`sorted_topk`. Folders: `attention` and `quantized`.
"""
