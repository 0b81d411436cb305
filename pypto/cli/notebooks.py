"""Scripts in notebook form (jupytext's percent format) as notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_CELL: Final = re.compile(r"^# %%(?P<markdown> \[markdown\])?$", re.MULTILINE)
_METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(script: str) -> str:
    """The JSON of a notebook with the cells of a script, not yet executed.

    Examples
    --------
    >>> made = json.loads(notebook("# %% [markdown]\\n# # Title\\n#\\n# Text.\\n\\n# %%\\nx = 1\\n"))
    >>> [(cell["cell_type"], cell["source"]) for cell in made["cells"]]
    [('markdown', ['# Title\\n', '\\n', 'Text.']), ('code', ['x = 1'])]
    """
    made = {"cells": list(cells(script)), "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def cells(script: str) -> Iterator[dict[str, Any]]:
    marks = list(_CELL.finditer(script))
    ends = [mark.start() for mark in marks[1:]] + [len(script)]
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True)):
        text = script[mark.end() : end].strip("\n")
        head = {"id": f"cell-{number}", "metadata": {}}
        if mark["markdown"]:
            lines = [re.sub("^# ?", "", line) for line in text.split("\n")]
            yield {"cell_type": "markdown", **head, "source": "\n".join(lines).splitlines(keepends=True)}
        else:
            code: dict[str, Any] = {"execution_count": None, "outputs": []}
            yield {"cell_type": "code", **head, **code, "source": text.splitlines(keepends=True)}
