"""Defines operators of torch and registers them: schema, kernel, fake, autograd, vmap, version counters."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from types import ModuleType
from typing import Any, Final, NoReturn

from pypto.arguments import Boundary
from pypto.errors.launch import UntransformedOperator
from pypto.runtime.tensors import has_mode, unseen
from pypto.torch.graph.derivatives import caller

torch: ModuleType = importlib.import_module("torch")
ROWS: Final = "pypto"  # the namespace of the library's rows
FUNCTIONS: Final = "pypto_ops"  # the namespace of kernels to which the user gives no other
Values = Mapping[str, Any]


@dataclass(frozen=True)
class OperatorDefinition:
    """The definition of an operator of torch.

    Parameters
    ----------
    namespace, name : str
        `torch.ops.<namespace>.<name>`.
    schema : str
        The arguments and results, as in ``(Tensor x, float eps=1e-6) -> Tensor``.
    parameters : tuple of (str, object)
        Names and defaults of the arguments that are given by position; a required one has None.
    run : callable
        Computes on tensors that have memory.
    fake : callable
        Makes results without elements; sizes may be symbolic.
    gradient : callable, optional
        Computes gradients by name from `torch` and a namespace of arguments, results, and `d_<result>`; see
        `recording`.
    refuse : callable, optional
        Raises the error of a call that autograd records, where there is no gradient. It gets the name of an argument.
    outputs : tuple of str
        Names of the results.
    is_differentiable : bool
        Whether a result or an effect has floats, so that a gradient could be lost.
    effects : tuple of str
        Arguments that are written in place.
    items : mapping of str to int, optional
        For arrays that have the dimension along which items are independent, its axis.
    is_elementwise : bool
        Whether each element of a result depends on the elements at its place alone.
    is_free : bool
        Whether any number of leading dimensions stand for the axis of the items.
    is_list : bool
        Whether it returns one list of tensors.
    title : str
        The name in errors; by default, its own.
    place : str
        Module and name of the kernel that it calls.
    facts : str
        What shapes and dtypes of results follow from, so that compiled code is not reused after they have changed.
    backward : OperatorDefinition, optional
        The operator that its gradient calls, which is registered with it.
    """

    namespace: str
    name: str
    schema: str
    parameters: tuple[tuple[str, Any], ...]
    run: Callable[..., Any]
    fake: Callable[..., Any]
    gradient: Callable[[Any, Any], Values] | None = None
    refuse: Callable[[str], NoReturn] | None = None
    outputs: tuple[str, ...] = ()
    is_differentiable: bool = True
    effects: tuple[str, ...] = ()
    items: Mapping[str, int] = field(default_factory=dict)
    is_elementwise: bool = False
    is_free: bool = False
    is_list: bool = False
    title: str = ""
    place: str = ""
    facts: str = ""
    backward: OperatorDefinition | None = None

    @property
    def qualified(self) -> str:
        """Returns the name with its namespace, as torch writes it."""
        return f"{self.namespace}::{self.name}"

    @cached_property
    def overload(self) -> Any:
        """Returns the overload of the operator, whose schema is known."""
        return getattr(getattr(torch.ops, self.namespace), self.name).default

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the arguments that are given by position."""
        return tuple(name for name, _ in self.parameters)

    @cached_property
    def function(self) -> Any:
        """Returns the `torch.autograd.Function` of the operator."""
        from pypto.torch.operators.recording import recorded_function

        return recorded_function(self)

    def arguments(self, args: tuple[Any, ...], given: Values = {}) -> tuple[Any, ...]:  # noqa: B006
        """Returns all arguments by position, since torch leaves out those that have their default."""
        others = self.parameters[len(args) :]
        return (*args, *(given.get(name, default) for name, default in others)) if others else args

    def returned(self, results: tuple[Any, ...]) -> Any:
        """Returns results in the form that the schema demands."""
        if self.is_list:
            return list(results)
        return results[0] if len(results) == 1 else results or None


@dataclass
class Operators:
    """The operators of this process, by qualified name; a library of torch keeps each alive."""

    definitions: dict[str, OperatorDefinition] = field(default_factory=dict)
    libraries: dict[str, Any] = field(default_factory=dict)
    tag: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def define(self, definition: OperatorDefinition) -> OperatorDefinition:
        """Registers an operator; it replaces the one of that name.

        Raises
        ------
        UntransformedOperator
            If an argument has no type in torch, so that there is no schema.
        """
        name = definition.qualified
        if not definition.schema:
            how = "called where torch traces or transforms it: an argument is no tensor, number or text"
            with Boundary(caller().loc):
                raise UntransformedOperator(kernel=definition.title, how=how, way="make it a constant of the kernel")
        with self.lock:
            if name in self.libraries:
                self.libraries.pop(name)._destroy()
            self.definitions[name] = definition
            self.libraries[name] = registered(definition)
            self.mark(f"{self.tag} {name}{definition.schema} {definition.facts}")
            if definition.backward is not None:
                self.define(definition.backward)
        return definition

    def mark(self, facts: str) -> None:
        """Adds what operators compute to the keys of torch's caches, which otherwise contain only their names."""
        config: Any = getattr(torch.compiler, "config", None)
        if hasattr(config, "cache_key_tag"):  # torch 2.7 and later
            others = config.cache_key_tag.removesuffix(self.tag)
            self.tag = f"pypto-{sha256(facts.encode()).hexdigest()[:16]}"
            config.cache_key_tag = others + self.tag

    def ensure(self, definition: OperatorDefinition) -> OperatorDefinition:
        """Registers an operator, unless one of that name is registered."""
        with self.lock:
            return self.definitions.get(definition.qualified) or self.define(definition)

    def is_known(self, namespace: str, name: str) -> bool:
        """Says whether torch has an operator of that name, from pypto or elsewhere."""
        return f"{namespace}::{name}" in self.definitions or hasattr(getattr(torch.ops, namespace), name)


def registered(definition: OperatorDefinition) -> Any:
    """Registers an operator, and returns the library that keeps it."""
    from pypto.torch.operators.batching import batched
    from pypto.torch.operators.recording import autograd_kernel

    name, qualified = definition.name, definition.qualified
    library = torch.library.Library(definition.namespace, "FRAGMENT")
    library.define(f"{name}{definition.schema}")
    library.impl(name, computed(definition), "CompositeExplicitAutograd")
    library.impl(name, autograd_kernel(definition), "Autograd", with_keyset=True)
    torch.library.register_fake(qualified, definition.fake, lib=library)
    torch.library.register_vmap(qualified, batched(definition), lib=library)
    if definition.effects:
        library.impl(name, versioned(definition), "ADInplaceOrView", with_keyset=True)
    return library


def computed(definition: OperatorDefinition) -> Callable[..., Any]:
    """Returns the kernel of an operator; its launches are hidden from modes and autograd, which saw the call."""

    def run(*args: Any, **given: Any) -> Any:
        if has_mode():
            with unseen(), torch.no_grad():
                return definition.run(*args, **given)
        if torch.is_grad_enabled():
            with torch.no_grad():
                return definition.run(*args, **given)
        return definition.run(*args, **given)

    return run


def versioned(definition: OperatorDefinition) -> Callable[..., Any]:
    """Returns a kernel that increments the version counters of effects, so that autograd detects a stale tensor."""

    def run(keyset: Any, *args: Any, **given: Any) -> Any:
        written = [
            x for name, x in zip(definition.names, args, strict=False) if name in definition.effects and x is not None
        ]
        torch.autograd.graph.increment_version(written)
        with torch._C._AutoDispatchBelowADInplaceOrView():
            keys = keyset & torch._C._after_ADInplaceOrView_keyset
            return definition.overload.redispatch(keys, *args, **given)

    return run


@functools.lru_cache(maxsize=1)
def operators() -> Operators:
    """Returns the operators of this process."""
    return Operators()
