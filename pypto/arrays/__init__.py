"""Array functions that numpy lacks, for fused functions and for plain numpy arrays.

A fused function traces them like numpy's functions. Called on numpy arrays, each runs as a separate fused function.
Names of the array API standard that numpy has are numpy's own functions: `pt.exp` is `np.exp`.

Read `names` (what is public), `functions`, `operations`, `linalg` and `inspection`; `windows` (their geometry) and
`convolution`, `transposed_convolution`, `pooling` and `interpolation`. Torch's words on tensors: `torch_methods`,
`torch_functions`, `torch_module`.
"""

from pypto.arrays import linalg
from pypto.arrays.convolution import conv1d, conv2d, conv3d
from pypto.arrays.functions import (
    attention,
    gelu,
    layer_norm,
    log_softmax,
    logsumexp,
    one_hot,
    relu,
    rms_norm,
    silu,
    softmax,
    softplus,
    topk,
)
from pypto.arrays.inspection import VERSION as __array_api_version__
from pypto.arrays.inspection import array_namespace_info as __array_namespace_info__
from pypto.arrays.interpolation import interpolate
from pypto.arrays.names import of_name
from pypto.arrays.operations import erf, erfc, rsqrt, sigmoid
from pypto.arrays.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from pypto.arrays.transposed_convolution import conv_transpose
from pypto.graph.cond import cond
from pypto.graph.fuse import explain, fuse
from pypto.graph.ir.dims import Dim
from pypto.graph.lazy import lazy
from pypto.graph.step_loops import fori_loop, scan, while_loop


def __getattr__(name: str) -> object:
    """Return numpy's function for a name of the array API standard."""
    return of_name(name)


__all__ = [
    "Dim",
    "__array_api_version__",
    "__array_namespace_info__",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "attention",
    "avg_pool",
    "cond",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose",
    "erf",
    "erfc",
    "explain",
    "fori_loop",
    "fuse",
    "gelu",
    "interpolate",
    "layer_norm",
    "lazy",
    "linalg",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "one_hot",
    "relu",
    "rms_norm",
    "rsqrt",
    "scan",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "topk",
    "while_loop",
]
