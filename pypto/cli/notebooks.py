"""Scripts in notebook form (jupytext's percent format) as notebooks."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, Final

_CELL: Final = re.compile(r"^# %%(?P<markdown> \[markdown\])?$", re.MULTILINE)
_NOQA: Final = re.compile(r"  # noqa(: [\w, ]+)?$")
_GUARD: Final = 'if __name__ == "__main__":'
_AND: Final = re.compile(r'^if __name__ == "__main__" and (.+):$')
_ELSE: Final = re.compile(r'^elif __name__ == "__main__":$')
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
    document = {"cells": list(cells(script)), "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def plain(code: str) -> str:
    """A cell as it is read in a notebook: it runs as it stands, without what a script and a linter need.

    Tutorials are modules, too, so that their cells stand under ``if __name__ == "__main__":``.

    Examples
    --------
    >>> print(plain('if __name__ == "__main__":\\n    f(1)  # noqa: B023'))
    f(1)
    >>> print(plain('if __name__ == "__main__" and FAST:\\n    f()\\nelif __name__ == "__main__":\\n    g()'))
    if FAST:
        f()
    else:
        g()
    """
    lines, guarded, quoted = list[str](), False, lines_of_strings(code)
    for number, line in enumerate(code.split("\n"), 1):
        if number in quoted:
            lines.append(line)
            continue
        if line == _GUARD:
            guarded = True
            continue
        guarded = guarded and (not line or line.startswith("    "))
        shown = _NOQA.sub("", line.removeprefix("    ") if guarded else line)
        lines.append(_ELSE.sub("else:", _AND.sub(r"if \1:", shown)))
    return "\n".join(lines)


def lines_of_strings(code: str) -> set[int]:
    """The lines of strings over several lines, but for their first ones: what stands there is no statement."""
    strings = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
    return {n for node in strings for n in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)}


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
            yield {"cell_type": "code", **head, **code, "source": plain(text).splitlines(keepends=True)}
