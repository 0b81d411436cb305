"""Diagnostics in a notebook: their own text, cells by their number, and none of the frames between."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any, Final

from pypto.loc import Loc

_OURS: Final = str(Path(__file__).parents[1])
_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")})


def rendered(text: str, locs: list[Loc], error: BaseException) -> list[str]:
    """The lines that IPython shows in place of a traceback: what is wrong, and from where the kernel was launched.

    Parameters
    ----------
    text : str
        Of the diagnostic; files of `locs` that are cells are named as the notebook numbers them.
    locs : list of Loc
        Every place in the text.
    error : BaseException
        Whose traceback is looked through for the user's own frames.
    """
    for file in sorted({loc.file for loc in locs}):
        text = text.replace(file, cell_name(file))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    shown = (f for f in reversed(frames) if not is_magic(f.line or ""))
    frames_text = [f"  launched from {cell_name(f.filename)}:{f.lineno}" + inside(f.name) for f in shown]
    return [f"\x1b[31m{type(error).__name__}\x1b[0m: {text}", *frames_text]


def is_magic(text: str) -> bool:
    """Whether a line is what IPython makes of a magic: its cell has a frame of its own."""
    return text.startswith(("get_ipython().run_cell_magic", "get_ipython().run_line_magic"))


def inside(function: str) -> str:
    return "" if function.startswith("<") else f", in {function}"


def is_users(file: str) -> bool:
    """Whether a file is neither ours nor of an installed library."""
    return cell_name(file) != file or not file.startswith((_OURS, *_INSTALLED, "<"))


def cell_name(file: str) -> str:
    """A cell as ``Cell In[3]``; every other file as it is."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return " ".join(named) if named else file
