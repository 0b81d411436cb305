"""Functions on arrays that numpy has not, for functions under `pto.fuse` and for arrays of numpy as they are.

Within a fused function they are traced as numpy's functions are. Called on arrays of numpy, each is a fused function of
its own. Names of the array API standard that numpy has, are numpy's: `pt.exp` is `np.exp`.

Read `names` (what is public), `functions`, `operations`, `linalg` and `inspection`.
"""

from pypto.arrays import linalg
from pypto.arrays.functions import (
    attention,
    conv2d,
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
from pypto.arrays.names import of_name
from pypto.arrays.operations import erf, erfc, rsqrt, sigmoid
from pypto.graph.cond import cond
from pypto.graph.fuse import explain, fuse
from pypto.graph.ir.dims import Dim
from pypto.graph.lazy import lazy


def __getattr__(name: str) -> object:
    """What the array API standard has, as numpy has it."""
    return of_name(name)


__all__ = [
    "Dim",
    "__array_api_version__",
    "__array_namespace_info__",
    "attention",
    "cond",
    "conv2d",
    "erf",
    "erfc",
    "explain",
    "fuse",
    "gelu",
    "layer_norm",
    "lazy",
    "linalg",
    "log_softmax",
    "logsumexp",
    "one_hot",
    "relu",
    "rms_norm",
    "rsqrt",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "topk",
]
