"""Warnings at compilation: a kernel stores nothing, cuts fractions, or is compiled again and again."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from pypto.arguments import shown
from pypto.errors.advice import ManyVersions, PrintsNothing, StoresNothing, tell
from pypto.frontend import ArgSpec, Built, ConstSpec, KernelSource
from pypto.ir.core import Function
from pypto.ir.types import ArrayType
from pypto.loc import Loc
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.runtime.specialization import Fact, Specialization

MANY: Final = 9  # versions for the same types that trigger a warning
_SAID: Final = ("static_print", "static_assert")  # ops that give a purpose to a kernel without stores
_WAYS: Final = (
    ("constant", "pass it as a number of the launch, without `pto.constexpr`, or round it up, to few values"),
    ("shape", "annotate the array: `x: pto.dynamic`"),
    ("variable", "pass it to the kernel as an argument"),
)


def advise(
    kernel: Any, built: Built, silent: str, versions: Sequence[Specialization], specs: Mapping[str, ArgSpec]
) -> None:
    """Warns of likely mistakes in a kernel's text, and of too many versions; the last one is the newest.

    `silent` is the name of a backend that drops kernels' prints, and empty for others. Triton's kernels are read as
    Triton reads them, without a word.
    """
    source, about = kernel.kernel_source, (kernel.reported, kernel.function.__globals__)
    if silent and any(op.name == "print_" for op in built.function.walk()):
        tell(PrintsNothing(built.function.loc, kernel=source.name, device=silent), *about)
    for remark in versions[-1].program.advice if versions else ():
        tell(remark, *about)
    if source.lenient:
        return
    for remark in built.remarks:
        tell(remark, *about)
    if is_idle(built.function, source):
        rebound = next(rebindings(source, built.function), None)
        way = "write into an array argument, as in `out[:] = value`"
        if rebound:
            name, _ = rebound
            way = f"`{name} = …` gives the name another value; write into the array: `{name}[:] = …`"
        tell(StoresNothing(rebound[1] if rebound else built.function.loc, kernel=source.name, way=way), *about)
    count_versions(kernel, alike(versions, specs, kernel.tuned), specs)


def is_idle(function: Function, source: KernelSource) -> bool:
    """Says whether a kernel with arrays has no visible effect."""
    has_arrays = any(isinstance(v.type, ArrayType) for v in function.args)
    does = any(op.regions == () and TABLE[op.name].effect not in (Effect.PURE, Effect.READ) for op in function.walk())
    names = (n.func for n in ast.walk(source.node) if isinstance(n, ast.Call))
    says = any(getattr(f, "attr", getattr(f, "id", "")) in _SAID for f in names)
    return has_arrays and not does and not says


def rebindings(source: KernelSource, function: Function) -> Iterator[tuple[str, Loc]]:
    """Returns the statements that rebind the name of an array argument, in the order of the source."""
    arrays = {v.hint for v in function.args if isinstance(v.type, ArrayType)}
    for node in ast.walk(source.node):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets if isinstance(node, ast.stmt) else ():
            if isinstance(target, ast.Name) and target.id in arrays:
                yield target.id, source.loc(node)


# --- versions ---------------------------------------------------------------------------------------------------------


def count_versions(kernel: Any, versions: Sequence[Specialization], specs: Mapping[str, ArgSpec]) -> None:
    """Warns of the ninth version for the same types, and names what keeps changing, unless a tuner chose it."""
    source = kernel.kernel_source
    if len(versions) != MANY:
        return
    values = changing(versions, specs, kernel.tuned)
    most = max(map(len, values.values()), default=0)
    if most < 2:
        return
    names = [name for name, seen in values.items() if len(seen) == most]
    what = " and ".join(f"{kind} `{name}`" for kind, name in names)
    ways = dict(_WAYS)
    way = "; ".join(dict.fromkeys(ways[kind] for kind, _ in names))
    loc = source.loc(source.node)
    advice = ManyVersions(loc, count=MANY, kernel=source.name, what=f"the {what}", way=way)
    tell(advice, kernel.reported, kernel.function.__globals__)


def alike(
    versions: Sequence[Specialization], specs: Mapping[str, ArgSpec], tuned: frozenset[str]
) -> list[Specialization]:
    """Returns versions for the current types, one for each set that differs only in tuned constants."""
    types = {name: shown(spec) for name, spec in specs.items() if not isinstance(spec, ConstSpec)}
    distinct: dict[Hashable, Specialization] = {}
    for v in versions:
        if types.items() <= dict(v.types).items():
            constants = tuple((name, text) for name, text in v.types if name not in tuned)
            captures = tuple(id(c.value) for c in v.captures)
            distinct.setdefault((constants, tuple(sorted(v.guard.items(), key=str)), captures, v.noalias), v)
    return list(distinct.values())


def changing(
    versions: Sequence[Specialization], specs: Mapping[str, ArgSpec], tuned: frozenset[str]
) -> dict[tuple[str, str], set[Any]]:
    """Returns the properties in which versions differ, by kind and name, with all their values."""
    seen: dict[tuple[str, str], set[Any]] = {}
    for v in versions:
        for name, text in v.types:
            if isinstance(specs[name], ConstSpec) and name not in tuned:
                seen.setdefault(("constant", name), set()).add(text)
        for fact, value in v.guard.items():
            seen.setdefault(("shape", fact_text(fact)), set()).add(value)
        for c in v.captures:
            seen.setdefault(("variable", c.name), set()).add(id(c.value))
    return {name: values for name, values in seen.items() if len(values) > 1}


def fact_text(fact: Fact) -> str:
    kind, arg, dim = fact
    return f"{arg}.{'strides' if kind == 'stride' else 'shape'}[{dim}]" if kind in ("shape", "stride") else arg
