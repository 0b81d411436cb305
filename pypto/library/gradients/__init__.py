"""Gradients of the library's rows, written with torch operations and calls of other rows.

`rule` has the type of all gradients, and the composition of operations that torch differentiates. Gradients of rows:
`norms`, `activations`, `rope`, `losses`, `image`, `moe`, `quantization`, `products`, `residual`, `attention`, `caches`
(paged ones), `linear_attention` and `mla`. They compute in float32, or in float64 where the tensors are, and each
gradient has the dtype of its argument. Torch is passed in, so that the rows can be loaded without it.
"""

from pypto.library.gradients.rule import Gradient, composed, described

__all__ = ["Gradient", "composed", "described"]
