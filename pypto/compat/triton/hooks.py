"""Calls the hooks of `triton.knobs.runtime` around compilations and launches, with what Triton tells them.

Hooks are called for launches of `triton.jit`'s kernels, and not for those inside of a graph of torch.compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pypto.arguments import describe, spec_key
from pypto.compat.triton.compiled import CompiledKernel
from pypto.compat.triton.utils import mangle_type
from pypto.compat.triton.versions import serialized
from pypto.jit.specialize import backend_for
from pypto.runtime.arrays import stand_in
from pypto.runtime.launch import disjoint, overlaps

if TYPE_CHECKING:
    from pypto.compat.triton.kernels import JITFunction


class JitFunctionInfo(NamedTuple):
    """A kernel, as hooks of compilations get it."""

    module: Any
    name: str
    jit_function: Any


class LazyDict:
    """What a launch hook gets: `get` completes it by what the kernel's own `launch_metadata` says."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.extras = data, list[tuple[Callable[..., Any], tuple[Any, ...]]]()

    def get(self) -> dict[str, Any]:
        """The whole dictionary."""
        while self.extras:
            function, args = self.extras.pop(0)
            self.data = self.data | function(*args)
        return self.data

    def add(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Has the dictionary completed by what a function gives, when it is asked for."""
        self.extras.append((function, args))


class Hooks:
    """The hooks that are set now; those of older versions are attributes of Triton's classes."""

    def __init__(self, runtime: Any, kind: type[JITFunction]) -> None:
        self.before = (getattr(runtime, "jit_cache_hook", None), kind.cache_hook)
        self.after = (getattr(runtime, "jit_post_compile_hook", None), kind.compiled_hook)
        self.enter = (getattr(runtime, "launch_enter_hook", None), CompiledKernel.launch_enter_hook)
        self.exit = (getattr(runtime, "launch_exit_hook", None), CompiledKernel.launch_exit_hook)

    def __bool__(self) -> bool:
        return any(bool(getattr(x, "calls", x)) for x in (*self.before, *self.after, *self.enter, *self.exit))

    def compiles(self, fn: JITFunction, args: tuple[Any, ...], given: dict[str, Any], is_warmup: bool) -> bool:
        """Compiles a version that is not known yet between its hooks; says whether the kernel may go on."""
        if not any((*self.before, *self.after)) or fn.ours.options.interpret or is_known(fn, args, given):
            return True
        facts = description(fn, args, given, is_warmup)
        forbids = [hook(**facts) for hook in self.before if hook]  # all are called
        if any(forbids):
            return False
        fn.ours.warmup(*args, **given)
        for hook in filter(None, self.after):
            hook(**facts)
        return True

    @contextmanager
    def around(self, fn: JITFunction, grid: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Iterator[None]:
        """Calls the hooks before and after a launch."""
        bound = fn.signature.bind(*args, **given)
        bound.apply_defaults()
        sizes = grid(bound.arguments) if callable(grid) else grid
        sizes = (*(sizes if isinstance(sizes, tuple | list) else (sizes,)), 1, 1)[:3]
        compiled = CompiledKernel.of(fn, None, args, given)
        launched = LazyDict({"name": compiled.name, "function": compiled.function, "stream": 0})
        if fn.launch_metadata is not None:
            launched.add(fn.launch_metadata, (sizes, compiled.metadata, dict(bound.arguments)))
        for hook in filter(None, self.enter):
            hook(launched)
        yield
        for hook in filter(None, self.exit):
            hook(launched)


def is_known(fn: JITFunction, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Whether a version for these arguments, or their dtypes, has been compiled in this process."""
    ours = fn.ours
    values = zip(ours.signature.bind(args, given), ours.signature.constant, strict=True)
    infos, specs = describe(ours.signature, tuple(x if fixed else stand_in(x) for x, fixed in values))
    group = backend_for(ours, infos), tuple((name, spec_key(spec)) for name, spec in specs.items())
    return any(s.holds(infos, disjoint(*overlaps(s.program.written, infos))) for s in ours.known.get(group, ()))


def description(fn: JITFunction, args: tuple[Any, ...], given: dict[str, Any], is_warmup: bool) -> dict[str, Any]:
    """What a hook of a compilation gets: the kernel, and the types and constants that it is compiled for."""
    bound = fn.signature.bind(*args, **given)
    bound.apply_defaults()
    fixed = {p.name for p in fn.params if p.is_constexpr}
    types = {name: "constexpr" if name in fixed else mangle_type(x) for name, x in bound.arguments.items()}
    constants = {(n,): bound.arguments[name] for n, name in enumerate(fn.arg_names) if name in fixed}
    text = f"{fn.fn.__qualname__}({', '.join(f'{name}: {kind}' for name, kind in types.items())})"
    key = f"{text} {constants}"
    metadata = CompiledKernel.of(fn, None, args, given).metadata
    about = {
        "key": key, "signature": types, "device": 0, "constants": constants, "num_warps": metadata.num_warps,
        "num_ctas": metadata.num_ctas, "num_stages": metadata.num_stages, "enable_fp_fusion": True,
        "launch_cooperative_grid": False, "extern_libs": (), "configs": [{}], "is_warmup": is_warmup,
        "specialization_data": serialized(fn, bound.arguments),
    }  # fmt: skip
    info = JitFunctionInfo(fn.module, fn.__qualname__, fn)
    return {
        "key": key, "repr": text, "fn": info, "compile": about, "is_manual_warmup": is_warmup,
        "already_compiled": False,
    }  # fmt: skip
