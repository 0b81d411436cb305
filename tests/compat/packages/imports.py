"""Names of Triton that installed packages import or read, found in their source, as a list beside this file.

``python -m tests.compat.packages.imports`` writes the rows of the packages that its interpreter finds, and keeps those
of the others: so the list is made by several environments, one after the other.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

LIST: Final = Path(__file__).with_suffix(".json")
PACKAGES: Final = (
    *("vllm", "fla", "liger_kernel", "flag_gems", "sglang", "unsloth", "unsloth_zoo", "torchao", "transformers"),
    *("torch", "kernels"),
)

# What a package's own module `triton_utils` hands on.
THROUGH: Final = {"triton": "triton", "tl": "triton.language", "tldevice": "triton.language.extra.libdevice"}


def names_in(tree: ast.Module) -> set[str]:
    """Returns the full names of Triton's tree that a module imports, and the attributes that it reads of them."""
    places: dict[str, str] = {}
    for node in ast.walk(tree):
        places.update(imported(node))
    reads = (read(node, places) for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {name for name in (*places.values(), *reads) if name}


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields the names that an import binds, with what of Triton they are."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if is_triton(alias.name):
                yield alias.name, alias.name
                yield alias.asname or "triton", alias.name if alias.asname else "triton"
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            if node.level == 0 and is_triton(node.module):
                yield alias.asname or alias.name, node.module if alias.name == "*" else f"{node.module}.{alias.name}"
            elif node.module.endswith("triton_utils") and alias.name in THROUGH:
                yield alias.asname or alias.name, THROUGH[alias.name]


def is_triton(name: str) -> bool:
    return name == "triton" or name.startswith("triton.")


def read(node: ast.Attribute, places: dict[str, str]) -> str:
    """Returns the full name of an attribute of a name that stands for a part of Triton; empty for any other."""
    parts, value = [node.attr], node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    if not isinstance(value, ast.Name) or value.id not in places:
        return ""
    return ".".join((places[value.id], *reversed(parts)))


def scanned(package: str) -> dict[str, Any] | None:
    """Returns the row of a package, from its files; None where it is not installed or names nothing of Triton."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    names: set[str] = set()
    for file in Path(spec.submodule_search_locations[0]).rglob("*.py"):
        text = file.read_text(encoding="utf-8", errors="replace")
        if "triton" in text:
            names |= names_in(ast.parse(text))
    distribution = packages_distributions().get(package, [package])[0]
    return {"distribution": distribution, "version": version(distribution), "names": sorted(names)} if names else None


def main() -> None:
    rows = json.loads(LIST.read_text(encoding="utf-8")) if LIST.exists() else {}
    rows |= {package: row for package in PACKAGES if (row := scanned(package)) is not None}
    LIST.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
