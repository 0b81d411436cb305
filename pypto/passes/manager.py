"""Pass manager: rows that say what a pass is and when it runs, and the loop that runs them in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

from pypto.ir.core import Attr, Function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify

DISABLE: Final = "disable"  # the attribute of a function that names the passes which do not run


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass, or a technique of code generation, and why it stands where it does.

    A technique has no `run`: the code generator asks `is_enabled` while it emits text.

    `needs` is the op without which there is nothing to do. `unless` are the modes in which the pass does not run, by
    the attribute of the function that stands for each: ``checked``, ``profile`` or ``prints``. Code is right without
    an `optional` pass, so that a kernel may switch it off.
    """

    name: str
    run: Callable[..., Any] | None
    reason: str
    needs: str = ""
    unless: tuple[str, ...] = ()
    optional: bool = False

    def is_enabled(self, attrs: Mapping[str, Attr]) -> bool:
        """True where neither the mode of a function with these attributes nor its `disable` option is against it."""
        return attrs.keys().isdisjoint(self.unless) and not (self.optional and self.name in disabled(attrs))


Observer = Callable[[Pass, Any, Any], object]  # is told a pass, the IR before it and the IR after it
_OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("observers", default=())


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Tell an observer of every pass that runs meanwhile in this thread."""
    token = _OBSERVERS.set((*_OBSERVERS.get(), observer))
    try:
        yield
    finally:
        _OBSERVERS.reset(token)


def observe(step: Pass, before: Any, after: Any) -> None:
    """Tell all observers that a pass has run."""
    for observer in _OBSERVERS.get():
        observer(step, before, after)


def is_observed() -> bool:
    """True while somebody waits for passes to run, so that code may not come from a cache."""
    return bool(_OBSERVERS.get())


def disabled(attrs: Mapping[str, Attr]) -> tuple[str, ...]:
    """Names of the passes that a kernel switches off."""
    return cast("tuple[str, ...]", attrs.get(DISABLE, ()))


def run(ir: Any, passes: Sequence[Pass], *context: Any, attrs: Mapping[str, Attr] | None = None) -> Any:
    """`run_unverified`, and verify what comes of it."""
    result = run_unverified(ir, passes, *context, attrs=attrs)
    if result is not ir:
        verify_functions(result)
    return result


def run_unverified(ir: Any, passes: Sequence[Pass], *context: Any, attrs: Mapping[str, Attr] | None = None) -> Any:
    """Run passes in order, each on what the one before it gives, and give what the last one does.

    Parameters
    ----------
    ir : Function, or IR of a backend
        What the first pass takes.
    passes : sequence of Pass
        In the order in which they run.
    *context
        Further arguments of every pass, such as the target.
    attrs : mapping, optional
        Attributes of the kernel, which say what is enabled; those of `ir` where it is a function.
    """
    names = ir.op_names() if any(step.needs for step in passes) else frozenset()
    for step in passes:
        known = ir.attrs if attrs is None else attrs
        if step.run is None or (step.needs and step.needs not in names) or not step.is_enabled(known):
            continue
        before, ir = ir, step.run(ir, *context)
        observe(step, before, ir)
    return ir


def verify_functions(ir: Any) -> None:
    """Verify what a list of passes gives, so that an illegal rewrite is an error and not a wrong number.

    Other IR than Tile IR has a verifier of its own in the room where it is built.

    Raises
    ------
    InvalidIR
        For the first op that breaks a rule.
    """
    for function in ir if isinstance(ir, list) else (ir,):
        if isinstance(function, Function):
            verify(function, TABLE)
