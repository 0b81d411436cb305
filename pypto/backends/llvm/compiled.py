"""LLVM IR that clang made of C helpers: `.ll` beside a `.c`, in a form that joins the text of a kernel."""

from __future__ import annotations

from pathlib import Path


def helpers(source: Path, **constants: int) -> tuple[str, dict[str, str]]:
    """Return the functions of a C source, and by name the declarations of those that they call.

    A module declares each function once. `constants` are those that the source leaves open; LLVM folds them, as they
    are internal.
    """
    text = source.with_suffix(".ll").read_text(encoding="utf-8")
    for name, value in constants.items():
        text = text.replace(f"@{name} = external constant i64", f"@{name} = internal constant i64 {value}")
    lines = text.splitlines()
    declared = {line.split("@")[1].split("(")[0]: line for line in lines if line.startswith("declare")}
    return "\n".join(line for line in lines if line not in declared.values()) + "\n", declared


def source_module(source: Path, **constants: int) -> str:
    """Return a C source as a module of its own, see `helpers`."""
    text, declared = helpers(source, **constants)
    return text + "\n".join(declared.values()) + "\n"
