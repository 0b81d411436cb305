"""Kernels of the library, written in the language, and beside each the function that launches it on arrays.

Read `norms` first. Others: `activations`, `losses`, `optim`, `residual`, `hadamard`, `image`; products: `products`,
`gemv`, `split_k_gemv`; experts: `moe`, `permutation`, `ragged`; selection: `topk`, `sorted_topk`. Folders: `attention`,
`quantized`.
"""
