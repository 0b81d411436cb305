"""Notebooks: `%load_ext pypto`, and the magics `%%pto` and `%pto`.

Read `magic`, then `cell`.
"""

from __future__ import annotations

from typing import Any

from pypto.notebook.magic import HELP, Magic


def load(shell: Any) -> None:
    """Give an IPython shell the magics."""
    magic = Magic(shell)

    def pto(line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True  # from what IPython shows of an error
        return magic(line, cell)

    pto.__doc__ = HELP
    shell.register_magic_function(pto, "line_cell", "pto")


def unload(shell: Any) -> None:
    """Take them away again."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("pto", None)
