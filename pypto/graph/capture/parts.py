"""Parts of values from outside that a traced function reads: attributes, items, cells, arrays of another library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pypto.errors.graph import NotTraced
from pypto.graph.capture import rebinding
from pypto.graph.capture.guards import CapturedInput, Get, Path, array_like

if TYPE_CHECKING:
    from pypto.graph.capture.reads import Reads


def foreign_array(reads: Reads, path: Path, text: str, get: Get, value: Any) -> Any:
    """Return the substitute of an array of the call's library, whose numpy view becomes an input."""

    def refuse(got: str, way: str) -> NoReturn:
        raise NotTraced(reads.functions.line_of_root(), what=f"`{text}`", problem=f"it is {got}", way=way)

    library = reads.call.library
    assert library is not None
    enter, kind = functools.partial(library.enter, refuse=refuse), type(value)
    array = enter(value)
    check = array_like(array)
    place = reads.keep(path, text, get, lambda x, values: type(x) is kind and check(enter(x), values), value)
    reads.inputs[id(array)] = CapturedInput(place, enter=enter)
    reads.entered[place] = reads.graph.argument(text, array)
    return reads.entered[place]


def attribute_of(parent: int, name: str) -> Get:
    return lambda values, roots: getattr(values[parent], name)


def item_of(parent: int, key: Any) -> Get:
    return lambda values, roots: values[parent][key]


GETTERS: Final[Mapping[str, Callable[[int, Any], Get]]] = {
    "cell": rebinding.cell_of,
    "attr": attribute_of,
    "item": item_of,
}
TEXTS: Final = {"cell": "{1}", "attr": "{0}.{1}", "item": "{0}[{1!r}]"}
