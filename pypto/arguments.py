"""Arguments of a launch, as the front end and the interpreter take them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pypto.errors import Diagnostic
from pypto.errors.frontend import NoSource
from pypto.errors.launch import ReadOnlyArgument, UnsupportedArgument
from pypto.ir.types import Type, scalar
from pypto.ops.public import constexpr
from pypto.runtime.arrays import ArrayInfo, array_info, array_type, scalar_dtype
from pypto.runtime.launch import constant_key
from pypto.runtime.signature import Signature, fixed_fields, plain

if TYPE_CHECKING:
    from pypto.frontend import ArgSpec, ConstSpec


def describe(signature: Signature, values: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, ArgSpec]]:
    """Arrays by what is known of them, and the kind of every argument."""
    infos: dict[str, Any] = {}
    rows = zip(signature.names, values, signature.constant, strict=True)
    return infos, {arg: spec_of(infos, signature, arg, value, constant) for arg, value, constant in rows}


def spec_of(infos: dict[str, Any], signature: Signature, arg: str, given: Any, constant: bool) -> ArgSpec:
    """The kind of an argument; what is known of its leaves goes to `infos`."""
    kernel, value, constant = signature.kernel, plain(given), constant or isinstance(given, constexpr)
    if isinstance(value, tuple) and not constant:
        fixed = fixed_fields(type(value)) or (False,) * len(value)
        specs = [spec_of(infos, signature, f"{arg}.{n}", x, fixed[n]) for n, x in enumerate(value)]
        made: tuple[Any, ...] = getattr(value, "_make", tuple)(specs)
        return made
    info = None if constant else array_info(value, kernel, arg)
    infos[arg] = info or value
    stated = signature.typed.get(arg)
    if info:
        return array_type(info, stated, kernel, arg)
    dtype = None if constant else scalar_dtype(value, kernel, arg, stated)
    return scalar(dtype) if dtype else constant_of(kernel, arg, value)


def constant_of(kernel: str, arg: str, value: Any) -> ConstSpec:
    """A compile-time value; it must have a hash, since versions are found by it."""
    from pypto.frontend import ConstSpec

    try:
        hash(value)
    except TypeError:
        got = f"a {type(value).__name__}, which has no hash, so it cannot be a constant"
        array = "an array" + (", as `numpy.array(x, numpy.float32)` makes one," if isinstance(value, list) else "")
        way = f"pass {array} or a number, or a hashable value for a `pto.constexpr` parameter"
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=got, way=way) from None
    return ConstSpec(value)


def spec_key(spec: ArgSpec) -> Any:
    """The kind of an argument, as a part of a key."""
    if isinstance(spec, tuple):
        return type(spec), *map(spec_key, spec)
    return spec if isinstance(spec, Type) else constant_key(spec.value)


def shown(spec: ArgSpec) -> str:
    """The kind of an argument, for people."""
    if isinstance(spec, tuple):
        return f"({', '.join(map(shown, spec))})"
    return str(spec) if isinstance(spec, Type) else repr(spec.value)


def placed(error: Diagnostic, source: Callable[[], Any]) -> Diagnostic:
    """A mistake in a launch, at the parameter that it is about."""
    with contextlib.suppress(NoSource):
        node = source().node
        args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        name = str(error.fields.get("arg")).partition(".")[0]
        about = next((a for a in args if a.arg == name), node)
        return type(error)(source().loc(about), error.others, **error.fields)
    return error


def check_writable(kernel: str, written: frozenset[str], infos: Mapping[str, Any]) -> None:
    """Refuse a launch that would write to an array which is read-only."""
    for arg in sorted(written):
        if isinstance(infos[arg], ArrayInfo) and not infos[arg].writable:
            raise ReadOnlyArgument(kernel=kernel, arg=arg)
