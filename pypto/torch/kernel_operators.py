"""Functions of kernels, as `pypto.torch.op` makes them, as operators of torch: forward and backward."""

from __future__ import annotations

import ast
import hashlib
import importlib
import secrets
import sys
from collections.abc import Sequence
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from pypto.errors.launch import OperatorName
from pypto.frontend import REWRITTEN
from pypto.ir.types import PtrType
from pypto.torch.graph.names import Unnamed, place_of, record, text_of
from pypto.torch.operators.calls import function_call
from pypto.torch.operators.definition import FUNCTIONS, ROWS, OperatorDefinition, operators

if TYPE_CHECKING:
    from pypto.torch.autograd import KernelFunction

torch: ModuleType = importlib.import_module("torch")
_KINDS: Final = {bool: "bool", int: "SymInt", float: "float", str: "str", type(None): "Tensor?"}
_ACCESSES: Final = ("load", "store", "tile_load", "tile_store", "atomic_add", "atomic_max", "atomic_min")


def function_definition(f: KernelFunction, kinds: Sequence[str]) -> OperatorDefinition:
    """Returns what torch is told of a function, for arguments of some types."""
    namespace, _, name = (f.name or f"{FUNCTIONS}::{default_name(f, kinds)}").rpartition("::")
    defaults = f.kernel.signature.defaults
    results = ", ".join(["Tensor"] * len(f.stored))
    schema = f"({', '.join(parameters(f, kinds))}) -> {results if len(f.stored) == 1 else f'({results})'}"
    if "" in kinds:  # torch has no type for an argument
        schema = ""
    try:
        facts = facts_of(f, kinds)
    except Unnamed:
        facts = secrets.token_hex(8)
    backward = backward_definition(f, namespace, f"{name}_backward", kinds)

    def gradient(torch: Any, v: Any) -> dict[str, Any]:
        wanted = [n for n in f.inputs if n in v.wanted]
        values = [getattr(v, n) for n in (*f.inputs, *f.stored)]
        incoming = [like(getattr(v, f"d_{n}"), getattr(v, n)) for n in f.stored]
        return dict(zip(wanted, function_call(backward, (*values, *incoming, ",".join(wanted))), strict=True))

    def run(*args: Any) -> Any:
        return f.computed(f.named(args))

    def fake(*args: Any) -> Any:
        stored = f.allocated(f.named(args))
        return stored[f.stored[0]] if len(f.stored) == 1 else tuple(stored[n] for n in f.stored)

    given = tuple((n, defaults.get(n)) for n in f.inputs)
    return OperatorDefinition(
        namespace,
        name,
        schema,
        given,
        run,
        fake,
        gradient,
        None,
        f.stored,
        title=f.kernel_name,
        backward=backward,
        place=place_of(f.kernel),
        facts=facts,
    )


def backward_definition(f: KernelFunction, namespace: str, name: str, kinds: Sequence[str]) -> OperatorDefinition:
    """Returns the operator of a function's gradients; `wrt` names those that it returns, in a list."""
    tensors = [*f.stored, *(f"d_{n}" for n in f.stored)]
    items = [f"{kind} {n}" for kind, n in zip(kinds, f.inputs, strict=True)]
    schema = f"({', '.join([*items, *(f'Tensor {n}' for n in tensors)])}, str wrt) -> Tensor[]"

    def run(*args: Any) -> Any:
        values = dict(zip((*f.inputs, *tensors), args, strict=False))
        wrt = tuple(args[-1].split(","))
        gradients = {n: torch.empty_like(values[n]) for n in wrt}
        incoming = {f"d_{n}": values.pop(f"d_{n}") for n in f.stored}
        incoming = {n: x for n, x in incoming.items() if x.is_floating_point()}
        f.adjoint(wrt).launch(f.grid_of(values), **values, **incoming, **{f"d_{n}": x for n, x in gradients.items()})
        return list(gradients.values())

    def fake(*args: Any) -> Any:
        values = dict(zip(f.inputs, args, strict=False))
        return [torch.empty_like(values[n]) for n in args[-1].split(",")]

    given = tuple((n, None) for n in (*f.inputs, *tensors, "wrt"))
    return OperatorDefinition(namespace, name, schema, given, run, fake, is_list=True, title=f.kernel_name)


def register_function(f: KernelFunction) -> None:
    """Registers a function that has a name; one of a kernel that is defined once more replaces the earlier one.

    Raises
    ------
    OperatorName
        If it has no namespace, or another operator has that name.
    """
    namespace, _, name = f.name.partition("::")
    if not (namespace.isidentifier() and name.isidentifier()) or namespace == ROWS:
        problem = "it is not a namespace of yours and a name"
        raise OperatorName(operator=f"`{f.name}`", problem=problem, way=f"write `name='my_ops::{f.kernel_name}'`")
    definition = f.definition(())
    earlier = operators().definitions.get(f.name)
    is_same = earlier is not None and earlier.place == definition.place
    if not is_same and operators().is_known(namespace, name):
        way = "give one of them another name, since a name means one operator in all graphs"
        raise OperatorName(operator=f"`{f.name}`", problem="there is another operator of that name", way=way)
    operators().define(definition)


def parameters(f: KernelFunction, kinds: Sequence[str]) -> list[str]:
    """Returns the arguments of the schema; the last ones may have defaults."""
    defaults = f.kernel.signature.defaults
    items = [f"{kind} {name}" for kind, name in zip(kinds, f.inputs, strict=True)]
    for n in reversed(range(len(items))):
        value = defaults.get(f.inputs[n])
        if type(value) not in (bool, int, float, str):
            break
        items[n] += f"={value!r}" if not isinstance(value, str) else f'="{value}"'
    return items


def kinds_of(f: KernelFunction, args: Sequence[Any]) -> tuple[str, ...]:
    """Returns the types that a schema has for some arguments; empty where torch has none."""
    constant = dict(zip(f.kernel.signature.names, f.kernel.signature.constant, strict=True))
    return tuple(kind_of(x, constant[name]) for name, x in zip(f.inputs, args, strict=True))


def kind_of(x: Any, is_constant: bool) -> str:
    """Returns the type that a schema has for an argument."""
    if isinstance(x, torch.Tensor):
        return "Tensor"
    kind = "SymInt" if isinstance(x, torch.SymInt) else _KINDS.get(type(x), "")
    return "int" if kind == "SymInt" and is_constant else kind


def stated_kinds(f: KernelFunction) -> list[str]:
    """Returns the types of a function's arguments before it is called.

    They follow from annotations and defaults. Other parameters are tensors where the kernel subscripts them, reads an
    attribute of them, loads from them or stores to them, and else numbers.
    """
    signature, accessed = f.kernel.signature, accessed_names(f.kernel.kernel_source.node)
    constant = dict(zip(signature.names, signature.constant, strict=True))
    kinds = []
    for name in f.inputs:
        stated, default = signature.typed.get(name), signature.defaults.get(name)
        if isinstance(stated, PtrType) or name in accessed or name in f.outputs.values():
            kinds.append("Tensor")
        elif type(default) in (bool, int, float, str):
            kinds.append("int" if type(default) is int and constant[name] else _KINDS[type(default)])
        elif stated is not None:
            kinds.append("float" if stated.is_float else "SymInt")
        else:
            kinds.append("int" if constant[name] else "Scalar")
    return kinds


def accessed_names(node: ast.AST) -> set[str]:
    """Returns the names that a kernel subscripts, reads attributes of, loads from or stores to."""
    names: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, (ast.Subscript, ast.Attribute)) and isinstance(one.value, ast.Name):
            names.add(one.value.id)
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _ACCESSES:
            pointer = one.args[0] if one.args else None
            names |= {x.id for x in leftmost(pointer)}
    return names


def leftmost(node: ast.AST | None) -> list[ast.Name]:
    """Returns the pointer of an expression such as ``x + offsets``."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return [node] if isinstance(node, ast.Name) else []


def default_name(f: KernelFunction, kinds: Sequence[str]) -> str:
    """Returns a name that means the same function in every process, or none but this one."""
    try:
        digest = hashlib.sha256(facts_of(f, kinds).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    except Unnamed:
        digest = f"process_{secrets.token_hex(8)}"
    return f"{f.kernel_name}_{digest}"


def facts_of(f: KernelFunction, kinds: Sequence[str]) -> str:
    """Returns the kernel's module, source and options, grid and outputs, and the types of arguments.

    Raises
    ------
    Unnamed
        If the kernel, the grid or an output depends on more than text, as a function with a closure does.
    """
    function = f.kernel.function
    module = sys.modules.get(function.__module__)
    if REWRITTEN in vars(function) or getattr(module, "__dict__", None) is not function.__globals__:
        raise Unnamed(function)
    if function.__closure__:  # its values may differ where its text is the same
        raise Unnamed(function)
    parts: Any = [place_of(f.kernel), text_of(f.kernel.kernel_source), repr(f.kernel.options)]
    return repr([*parts, described(f.grid), *((n, described(x)) for n, x in f.outputs.items()), *kinds])


def described(value: Any) -> Any:
    """Returns a text of a grid or of an allocation that is the same in every process.

    Raises
    ------
    Unnamed
        For objects without one.
    """
    if not isinstance(value, FunctionType):
        return record(value)
    if value.__closure__:
        raise Unnamed(value)
    defaults = [record(x) for x in value.__defaults__ or ()]
    return value.__module__, value.__qualname__, code_text(value.__code__), defaults


def code_text(code: CodeType) -> Any:
    constants = [code_text(x) if isinstance(x, CodeType) else repr(x) for x in code.co_consts]
    return code.co_code.hex(), code.co_names, constants


def like(gradient: Any, stored: Any) -> Any:
    """Returns a gradient in the memory layout of the stored tensor; zero where there is none."""
    if gradient is None:
        return torch.zeros_like(stored)
    if gradient.stride() == stored.stride():
        return gradient
    order = sorted(range(stored.dim()), key=lambda d: -stored.stride(d))
    copied = gradient.permute(order).contiguous()  # no update in place, which vmap refuses
    return copied.permute([order.index(d) for d in range(stored.dim())])
