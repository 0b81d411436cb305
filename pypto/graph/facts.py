"""Facts of a call that its plan depends on: the form of the arguments, types and layouts of arrays, constants."""

from __future__ import annotations

import dis
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from pypto.graph.named import Shapes
from pypto.graph.node import key_of
from pypto.graph.pytree import children
from pypto.graph.tensor import Tensor

Array = np.ndarray[Any, Any]
NO_SHAPES: Final[Shapes] = {}
MOST_DEPTH: Final = 8  # of containers from outside: some hold themselves


class TracedArgument(TypeError):
    """An argument is no array of numpy, but one of a function that is being traced, or a lazy one."""

    def __init__(self) -> None:
        super().__init__("an argument is an array of a traced function, or a lazy one: pass `np.asarray(…)` of it")


def collect(tree: Any, arrays: dict[int, Array], facts: list[Any], shapes: Shapes) -> None:
    """Arrays by their first place, and facts in order: the form of the tree, types and layouts, constants."""
    if isinstance(tree, np.ndarray):
        if id(tree) in arrays:
            facts.append(list(arrays).index(id(tree)))
        else:
            arrays[id(tree)] = tree
            shape = shapes.get(id(tree))
            facts.append((tree.shape, tree.dtype, tree.strides) if shape is None else (shape, tree.dtype))
        return
    found = children(tree)
    if found is None:
        if isinstance(tree, Tensor):
            raise TracedArgument
        facts.append(key_of(tree))
        return
    facts.append((found[0], tuple(name for name, _ in found[1])))
    for _, x in found[1]:
        collect(x, arrays, facts, shapes)


def globals_of(code: CodeType) -> list[str]:
    """The globals that a function reads, and functions within it.

    Examples
    --------
    >>> globals_of((lambda x: [x.shape[0] * scale for _ in range(n)]).__code__)
    ['range', 'n', 'scale']
    """
    found = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for part in code.co_consts:
        if isinstance(part, CodeType):
            found += globals_of(part)
    return list(dict.fromkeys(found))


def is_fact(function: FunctionType, name: str) -> bool:
    """Whether a global is no function, class or module: then a plan holds it as it was, and it is compared."""
    value = function.__globals__.get(name)
    return name in function.__globals__ and not callable(value) and not isinstance(value, ModuleType)


def surroundings(function: FunctionType, names: tuple[str, ...], cells: tuple[Any, ...]) -> list[Any]:
    """Numbers, texts, arrays and containers that a function takes from outside; a plan holds them as they were."""
    values = [function.__globals__.get(name) for name in names]
    values += [cell.cell_contents for cell in cells if cell_is_full(cell)]
    return [fact for x in values if (fact := fact_of(x)) is not None]


def fact_of(value: Any, depth: int = 0) -> Any:
    """What a plan depends on of a value; nothing of what is neither number nor text, array nor container."""
    if value is None or isinstance(value, int | float | complex | str | np.generic):
        return key_of(value)
    if isinstance(value, np.ndarray):
        return id(value), value.shape, value.dtype, value.strides
    found = children(value) if depth < MOST_DEPTH else None
    if found is None:
        return None
    return found[0], tuple((name, fact_of(x, depth + 1)) for name, x in found[1])


def cell_is_full(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
