"""The structure of the package, read from its syntax: imports and circles, large classes, attributes set from outside.

``python -m tests.house.structure`` prints the figures.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.house.measure import python_files, relative, syntax

Graph = Mapping[str, set[str]]
OWN = ("self", "cls")
TEMPORARILY = "temporarily"  # sets attributes of its first argument by keyword


@dataclass
class Imports:
    """What a module imports: when it is loaded, for types only, and inside of functions."""

    runtime: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    inner: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class ClassSize:
    """A class with how many methods and fields it has."""

    name: str
    methods: int
    fields: int


def module_name(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def trees(*folders: str) -> dict[str, ast.Module]:
    """The syntax of all files, by their path in the repository."""
    return {relative(path): syntax(path) for path in python_files(*folders)}


def imports(files: Mapping[str, ast.Module]) -> dict[str, Imports]:
    """What each module imports of the others."""
    known = {module_name(file) for file in files}
    found = {}
    for file, tree in files.items():
        result = Imports()
        collect(tree.body, result, result.runtime, known)
        for names in (result.runtime, result.types, result.inner):
            names.discard(module_name(file))
        found[module_name(file)] = result
    return found


def collect(nodes: Iterable[ast.AST], result: Imports, to: set[str], known: set[str]) -> None:
    for node in nodes:
        match node:
            case ast.FunctionDef():
                collect(ast.iter_child_nodes(node), result, result.inner, known)
            case ast.expr():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                collect(node.body, result, result.types, known)
            case ast.ImportFrom(module=str(base)):
                names = (f"{base}.{a.name}" for a in node.names)
                to.update({name if name in known else base for name in names} & known)
            case ast.Import():
                to.update({a.name for a in node.names} & known)
            case _:
                collect(ast.iter_child_nodes(node), result, to, known)


def reached(graph: Graph, start: str) -> set[str]:
    """All modules that a module imports, directly or not."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for name in graph.get(pending.pop(), ()):
            if name not in found:
                found.add(name)
                pending.append(name)
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import one another, directly or not."""
    reach = {name: reached(graph, name) for name in graph}
    groups = {tuple(sorted(b for b in reach[a] if a in reach.get(b, ()))) for a in graph if a in reach[a]}
    return sorted(list(group) for group in groups)


def back_edges(found: Mapping[str, Imports]) -> list[tuple[str, str]]:
    """Imports for types of a module that imports this one when it is loaded: arrows that run upwards."""
    graph = {name: x.runtime for name, x in found.items()}
    return sorted((a, b) for a, x in found.items() for b in x.types if a in reached(graph, b))


def class_sizes(files: Mapping[str, ast.Module]) -> list[ClassSize]:
    """All classes, each with its methods and its fields, declared or assigned to `self`."""
    return [
        ClassSize(f"{file}:{node.name}", len(methods(node)), len(fields(node)))
        for file, tree in files.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]


def methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [x for x in node.body if isinstance(x, ast.FunctionDef)]


def fields(node: ast.ClassDef) -> set[str]:
    declared = {x.target.id for x in node.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)}
    return declared | {name for method in methods(node) for base, name in stores(method) if base == "self"}


def stores(tree: ast.AST) -> list[tuple[str, str]]:
    """Attributes that are assigned, each with the text of what it is an attribute of."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, attr=attr, ctx=ast.Store()):
                found.append((ast.unparse(value), attr))
            case ast.Call(func=ast.Name(id=name), args=[value, *_]) if name == TEMPORARILY:
                found += [(ast.unparse(value), k.arg) for k in node.keywords if k.arg]
    return found


def outside_stores(files: Mapping[str, ast.Module]) -> Counter[str]:
    """How many attributes each file assigns that only classes of other files declare."""
    declared = {
        file: set().union(*(fields(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)))
        for file, tree in files.items()
    }
    everywhere = set().union(*declared.values())
    found: Counter[str] = Counter()
    for file, tree in files.items():
        foreign = [x for base, x in stores(tree) if base not in OWN and x in everywhere and x not in declared[file]]
        if foreign:
            found[file] = len(foreign)
    return found


def main() -> None:
    files = trees("pypto")
    found = imports(files)
    print(f"circles when modules are loaded: {len(circles({name: x.runtime for name, x in found.items()}))}")
    print(
        f"circles with imports inside of functions: {len(circles({k: x.runtime | x.inner for k, x in found.items()}))}"
    )
    for a, b in back_edges(found):
        print(f"  for types: {a} -> {b}")
    backends = {file: tree for file, tree in files.items() if file.startswith("pypto/backends/")}
    for size in class_sizes(backends):
        if size.methods > 25 or size.fields > 15:
            print(f"  {size}")
    outside = outside_stores(backends)
    print(f"attributes set from other files: {outside.total()}")
    for file, count in sorted(outside.items()):
        print(f"  {count:3} {file}")


if __name__ == "__main__":
    main()
