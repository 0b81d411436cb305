"""Arguments of a launch, as the front end and the interpreter take them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from pypto.errors import Diagnostic
from pypto.errors.frontend import NoSource
from pypto.errors.launch import UnsupportedArgument, WrongDecorator
from pypto.ir.types import Type, scalar
from pypto.loc import Loc
from pypto.ops.public import constexpr
from pypto.options import setting
from pypto.runtime.arrays import array_info, array_type, scalar_dtype
from pypto.runtime.launch import constant_key
from pypto.runtime.signature import Signature, fixed_fields, plain
from pypto.runtime.tensors import is_tensor

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
        spec: tuple[Any, ...] = getattr(value, "_make", tuple)(specs)
        return spec
    info = None if constant else array_info(value, kernel, arg)
    infos[arg] = info or value
    stated = signature.typed.get(arg)
    if info:
        return array_type(info, stated, kernel, arg)
    if isinstance(value, str) and not constant:
        way = f"pass an array or a number; a kernel is compiled for a string: annotate it: `{arg}: pto.constexpr`"
        raise UnsupportedArgument(kernel=kernel, arg=arg, got=f"the string {value!r}", way=way)
    dtype = None if constant else scalar_dtype(value, kernel, arg, stated)
    return scalar(dtype) if dtype else constant_of(kernel, arg, value)


def constant_of(kernel: str, arg: str, value: Any) -> ConstSpec:
    """A compile-time value; it must have a hash, since versions are found by it."""
    from pypto.frontend import ConstSpec

    if is_tensor(type(value)):
        way = "pass the number in it: `.item()`"
        raise UnsupportedArgument(kernel=kernel, arg=arg, got="a tensor, and a constant", way=way)
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


def check_function(x: Any) -> None:
    """Refuse what is no function but comes of one: a kernel, or what chooses a kernel's constants.

    Raises
    ------
    WrongDecorator
        When decorators stand in the wrong order, or twice.
    """
    if getattr(type(x), "is_fused", False):
        way = "a kernel reads and writes its arguments over a grid; fuse takes functions of numpy: use one of the two"
        raise WrongDecorator(
            decorator="pto.jit", given=f"the fused function `{x.__name__}`", wanted="a function", way=way
        )
    if isinstance(x, FunctionType) or not hasattr(x, "run") or not hasattr(x, "arg_names"):
        return
    other = {"Autotuner": "pto.autotune", "Heuristics": "pto.heuristics"}.get(type(x).__name__)
    given = f"what `@{other}` made of `{x.__name__}`" if other else f"the kernel `{x.__name__}`"
    below = f"decorators apply from the bottom up: write `@pto.jit` below `@{other}`, right above the function"
    way = below if other else "it is a kernel already: write `@pto.jit` once"
    raise WrongDecorator(decorator="pto.jit", given=given, wanted="a function", way=way)


def check_kernel(x: Any, taker: str, way: str) -> None:
    """Refuse what is no kernel, as a fused function is none.

    Raises
    ------
    WrongDecorator
    """
    if not hasattr(x, "signature"):
        name = getattr(x, "__name__", "")
        kind = "the fused function" if getattr(type(x), "is_fused", False) else "the function"
        given = f"{kind} `{name}`" if name else f"a {type(x).__name__}"
        way = way if kind == "the fused function" else "decorate it: `@pto.jit`"
        raise WrongDecorator(decorator=taker, given=given, wanted="a kernel", way=way)


def place_of(error: Diagnostic, source: Callable[[], Any]) -> Loc | None:
    """The place of a mistake in a launch: the parameter that it is about, or the head of the kernel."""
    if isinstance(error, NoSource):
        return None
    try:
        node = source().node
    except NoSource:
        return None
    args = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    name = str(error.fields.get("arg")).partition(".")[0]
    loc: Loc = source().loc(next((a for a in args if a.arg == name), node))
    return loc


class Boundary(contextlib.ContextDecorator):
    """Where mistakes leave the package: with a place, and without frames that say nothing about the user's program.

    A `with` block raises again what has left it, which adds no frame of its own. The frames stay where
    `PYPTO_TRACEBACK=full` asks for them.

    Parameters
    ----------
    place : function, optional
        Gives the place of a diagnostic that has none.
    """

    def __init__(self, place: Callable[[Diagnostic], Loc | None] | None = None) -> None:
        self.place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not isinstance(error, Diagnostic):
            if error is not None and setting("traceback") != "full":
                error.__traceback__ = of_users(error.__traceback__)
            return
        loc = self.place(error) if error.loc is None and self.place is not None else None
        if loc is not None:
            error.place(loc)
        if setting("traceback") != "full":
            error.__traceback__, error.__suppress_context__ = None, True


def of_users(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback from the user's first frame on; all of it where there is none."""
    from pypto.errors.notebook import is_users

    inner = trace
    while inner is not None and not is_users(inner.tb_frame.f_code.co_filename):
        inner = inner.tb_next
    return inner or trace


BOUNDARY: Final = Boundary()  # of what knows its places itself


def launched_kernel(kernel: Any) -> Any:
    """The kernel that an object launches: of a function under `triton.jit` the one in it, else the object itself."""
    return getattr(kernel, "ours", kernel)
