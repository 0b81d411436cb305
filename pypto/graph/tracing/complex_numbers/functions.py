"""numpy functions on complex arrays, as functions on their parts: reductions, products, choices and gathers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.tracing import methods, ordering, products, reductions
from pypto.graph.tracing.complex_numbers.pairs import by_parts, joined, part_dtype, parts_of
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.tensor import Tensor, graph_of
from pypto.graph.tracing.ufuncs import call, cast, lift, to_out


def as_complex(x: Tensor, dtype: Any) -> Tensor:
    """Cast to a complex dtype, or leave an array that has one."""
    return x if dtype is None else cast(x, np.dtype(dtype))


def total(
    a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
) -> Tensor:  # fmt: skip
    reduced = by_parts(lambda part: reductions.reduce(part, "sum", axis, bool(keepdims)))
    return to_out(reduced(as_complex(a, dtype)), out)


def mean(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    return to_out(by_parts(lambda part: reductions.mean(part, axis, None, None, keepdims))(as_complex(a, dtype)), out)


def var(
    a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Tensor:  # fmt: skip
    """Compute the variance, a real array: the sum of that of the parts."""
    real, imag = (reductions.var(part, axis, None, ddof, bool(keepdims)) for part in parts_of(as_complex(a, dtype)))
    return to_out(call(a.graph, np.add, (real, imag)), out)


def std(
    a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Tensor:  # fmt: skip
    return to_out(call(a.graph, np.sqrt, (var(a, axis, dtype, None, ddof, keepdims),)), out)


def cumsum(a: Tensor, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor:
    return to_out(by_parts(lambda part: reductions.scan(part, "cumsum", axis))(as_complex(a, dtype)), out)


def truth(name: str) -> Callable[..., Tensor]:
    def test(a: Tensor, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
        return to_out(reductions.reduce(a, name, axis, bool(keepdims)), out)

    return test


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    if ord not in (None, 2) or (ord == 2 and axis is None and x.ndim > 1):
        raise methods.untraced(f"`np.linalg.norm` of a complex array with ord={ord!r}")
    squares = [call(x.graph, np.square, (part,)) for part in parts_of(x)]
    sums = reductions.reduce(call(x.graph, np.add, tuple(squares)), "sum", axis, bool(keepdims))
    return call(x.graph, np.sqrt, (sums,))


def angle(z: Tensor, deg: bool = False) -> Tensor:
    real, imag = parts_of(z)
    result = call(z.graph, np.arctan2, (imag, real))
    return call(z.graph, np.multiply, (result, 180 / np.pi)) if deg else result


def take(a: Tensor, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tensor:
    return to_out(by_parts(lambda part: ordering.take(part, indices, axis, mode))(a), out)


def bilinear(product: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a product of complex arrays as real products: four of two complex arrays, two where one is real.

    `product` takes two arrays and what follows them.
    """

    def of_parts(a: Any, b: Any, *more: Any, **how: Any) -> Tensor:
        graph = graph_of(a, b)
        x, y = lift(graph, a), lift(graph, b)
        dtype = np.result_type(x.dtype, y.dtype)
        left = parts_of(x, dtype) if x.dtype.kind == "c" else (cast(x, part_dtype(dtype)),)
        right = parts_of(y, dtype) if y.dtype.kind == "c" else (cast(y, part_dtype(dtype)),)
        of = [[product(p, q, *more, **how) for q in right] for p in left]
        if len(left) == 1:
            return joined(of[0][0], of[0][1])
        if len(right) == 1:
            return joined(of[0][0], of[1][0])
        real = call(graph, np.subtract, (of[0][0], of[1][1]))
        return joined(real, call(graph, np.add, (of[0][1], of[1][0])))

    return of_parts


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **more: Any) -> Tensor:
    """Trace ``np.einsum`` of one or two operands; numpy computes that of more."""
    spec, *arrays = operands
    if not isinstance(spec, str) or len(arrays) > 2 or more:
        return to_out(by_numpy(np.einsum)(*operands, optimize=optimize, **more), out)
    if len(arrays) == 1:
        return to_out(by_parts(lambda part: products.einsum(spec, part))(lift(graph_of(*arrays), arrays[0])), out)
    return to_out(bilinear(lambda x, y: products.einsum(spec, x, y))(*arrays), out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    product: Any = np.tensordot
    return bilinear(product)(a, b, axes)


def nan_to_num(x: Tensor, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    replaced: Any = np.nan_to_num
    result = by_parts(replaced)(x, True, nan, posinf, neginf)
    return result if copy else to_out(result, x)


def conj(x: Tensor) -> Tensor:
    result: Any = np.conjugate(x)
    return cast(result, x.dtype)


def real_or_self(name: str) -> Callable[..., Any]:
    return lambda val: getattr(val, name)


def is_real(x: Tensor) -> Any:
    return x.imag == 0


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "sum": total, "mean": mean, "var": var, "std": std, "cumsum": cumsum, "any": truth("any"), "all": truth("all"),
        "linalg.norm": norm, "angle": angle, "take": take, "dot": bilinear(products.dot),
        "inner": bilinear(products.inner), "tensordot": tensordot, "einsum": einsum,
        "vdot": lambda a, b: bilinear(products.dot)(np.conjugate(a).reshape(-1), b.reshape(-1)),
        "outer": lambda a, b: np.multiply(a.reshape(-1, 1), b.reshape(1, -1)),
        "nan_to_num": nan_to_num, "isreal": is_real, "iscomplex": lambda x: x.imag != 0,
        "real": real_or_self("real"), "imag": real_or_self("imag"),
        "trace": by_parts(np.trace),
        "take_along_axis": by_parts(np.take_along_axis),
        "tril": by_parts(lambda part, k=0: np.tril(part, k)), "triu": by_parts(lambda part, k=0: np.triu(part, k)),
        "roll": by_parts(np.roll),
        "fft.fftshift": by_parts(np.fft.fftshift),
        "fft.ifftshift": by_parts(np.fft.ifftshift),
    }
)  # fmt: skip
PRODUCTS: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType(  # ufuncs
    {
        "matmul": bilinear(products.matmul),
        "vecdot": lambda a, b: einsum("...i,...i->...", np.conjugate(a), b),
        "matvec": lambda a, b: einsum("...ij,...j->...i", a, b),
        "vecmat": lambda a, b: einsum("...i,...ij->...j", np.conjugate(a), b),
    }
)
METHODS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **{n: FUNCTIONS[n] for n in ("sum", "mean", "var", "std", "cumsum", "any", "all", "take", "dot", "trace")},
        "conj": conj, "conjugate": conj,
    }
)  # fmt: skip
