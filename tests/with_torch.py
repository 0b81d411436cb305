"""Which tests need torch: `make torch` runs those alone, where torch is installed, and not the whole suite again.

A test needs torch where its own code imports it; all tests of a file do where anything else in the file imports it.
What cannot be seen so (a parameter names the library) carries the marker `torch` by hand. A run without torch fails
when a test is skipped for want of torch and has no marker, so none can be forgotten.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Protocol

from tests.skips import Skip

IMPORTERS = ("importorskip", "find_spec", "import_module")


class Report(Protocol):
    """What pytest says of a test, or of a file that was skipped as a whole."""

    nodeid: str
    keywords: Mapping[str, object]


@cache
def tests_with_torch(file: Path) -> frozenset[str] | None:
    """Names of the tests in a file that import torch; None where all tests of it need torch.

    Examples
    --------
    >>> from tests.conformance.processes import ROOT
    >>> tests_with_torch(ROOT / "tests/language/test_descriptors.py")
    frozenset({'test_torch_tensors'})
    """
    users = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if imports_torch(node)]
    tests = {node.name for node in users if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    return None if len(tests) < len(users) else frozenset(tests)


def imports_torch(tree: ast.AST) -> bool:
    return any(names_torch(node) for node in ast.walk(tree))


def names_torch(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(is_torch(alias.name) for alias in names)
        case ast.ImportFrom(module=str(module)):
            return is_torch(module)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(library)), *_]):
            return name in IMPORTERS and is_torch(library)
    return False


def is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch"


def needs_torch(file: Path, function: str) -> bool:
    """Whether a test function imports torch, or its file does for all."""
    tests = tests_with_torch(file)
    return tests is None or function in tests


def forgotten(skipped: Iterable[tuple[Report, str]], rows: Collection[Skip], root: Path) -> list[str]:
    """What was skipped for want of torch and would not run with `make torch`, a sentence for each.

    Parameters
    ----------
    skipped : iterable of (Report, str)
        What was skipped, and why.
    rows : collection of Skip
        The reasons for which tests may be skipped.
    root : Path
        The folder to which names of tests are relative.
    """
    patterns = [row.reason for row in rows if row.needs == "torch"]
    problems = []
    for report, reason in skipped:
        for_torch = any(re.fullmatch(pattern, reason.removeprefix("Skipped: "), re.DOTALL) for pattern in patterns)
        if for_torch and not is_marked(report, root):
            problems.append(f"{report.nodeid} is skipped for want of torch, but has no marker `torch`")
    return problems


def is_marked(report: Report, root: Path) -> bool:
    """Whether a test has the marker; a file that was skipped as a whole has it where the rule gives it to all tests."""
    if "::" in report.nodeid:
        return "torch" in report.keywords
    return tests_with_torch(root / report.nodeid) is None
