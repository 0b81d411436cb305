"""The names that kernels are written with.

Types: `types`. Ops of the table: `ops`. Functions in the language itself: `creation`, `shaping`, `standard`,
`reducing`, `ordering`, `statistics`, `activations`, `directed`, `bessel`, `libdevice`, `random`, `mx`. Structures:
`blocks`, `descriptors`, `aggregates`.
"""

from types import MappingProxyType
from typing import Final

from pypto.language import (
    activations,
    aggregates,
    blocks,
    creation,
    descriptors,
    libdevice,
    mx,
    ops,
    ordering,
    random,
    reducing,
    shaping,
    standard,
    statistics,
    types,
)
from pypto.language.activations import *  # noqa: F403
from pypto.language.aggregates import *  # noqa: F403
from pypto.language.blocks import *  # noqa: F403
from pypto.language.creation import *  # noqa: F403
from pypto.language.descriptors import *  # noqa: F403
from pypto.language.libdevice import copysign, div_rn, fdiv, isfinite, isinf, isnan, signbit, sqrt_rn  # noqa: F401  # in _MATH
from pypto.language.mx import *  # noqa: F403
from pypto.language.ops import *  # noqa: F403
from pypto.language.ordering import *  # noqa: F403
from pypto.language.random import *  # noqa: F403
from pypto.language.reducing import *  # noqa: F403
from pypto.language.shaping import *  # noqa: F403
from pypto.language.standard import *  # noqa: F403
from pypto.language.statistics import *  # noqa: F403
from pypto.language.types import *  # noqa: F403
from pypto.ops.public import const, constexpr, dynamic, static, tensor

_MATH = ("copysign", "div_rn", "fdiv", "isfinite", "isinf", "isnan", "signbit", "sqrt_rn")
_WRITTEN = (activations, creation, ordering, random, reducing, shaping, standard, statistics)
METHODS: Final = MappingProxyType(
    {
        name: getattr(module, name)
        for module, names in (*((m, m.__all__) for m in _WRITTEN), (libdevice, _MATH))
        for name in names
    }
    | {"item": shaping.item}  # as Triton has it: no name of the language
)
WITH_GRADIENTS: Final = MappingProxyType(
    dict(pair for module in (activations, ordering, standard, statistics) for pair in module.WITH_GRADIENTS)
)
"""What an adjoint is derived from, by the function of the language: one that works on bits, or has kinks of its own."""

__all__ = [  # noqa: PLE0604
    "const",
    "constexpr",
    "dynamic",
    "static",
    "tensor",
    *types.__all__,
    *_MATH,
    *aggregates.__all__,
    *blocks.__all__,
    *descriptors.__all__,
    *mx.__all__,
    *ops.__all__,
    *(name for m in _WRITTEN for name in m.__all__ if name not in ops.__all__),
]
