"""What can be wrong with operator projects, and with prototypes of operators that they are made from."""

from __future__ import annotations

from typing import Final

from pypto.errors.base import Diagnostic
from pypto.errors.examples import Example

_PROJECT: Final = (
    "import pathlib, tempfile\nfrom pypto.tools.project import write_project\n\n"
    "@pto.jit\ndef f(x, y):\n    y[:] = x[:] * 2\n\n"
    "folder = pathlib.Path(tempfile.mkdtemp(), 'made')\n"
)
_PROTOTYPE: Final = 'from pypto.tools.prototype import prototype_of\n\nkind = \'"format": ["ND"], "type": ["float"]\'\n'


class NoOperator(Diagnostic, ValueError):
    code = "E391"
    template = "{kernel} is no operator of CANN: {problem}"
    hint = "{way}"
    example = Example(
        f"{_PROJECT}write_project(folder, f, (1,), 'ascend910b2', {{'x': x[::2], 'y': y[:4]}})\n",
        f"{_PROJECT}write_project(folder, f, (1,), 'ascend910b2', {{'x': x[:4], 'y': y[:4]}})\n",
    )


class WrongPrototype(Diagnostic, ValueError):
    code = "E392"
    template = "{path} is no prototype of an operator: {problem}"
    hint = "it is what msopgen reads: an object, or a list with one, of `op`, `input_desc`, `output_desc` and `attr`"
    example = Example(
        f"{_PROTOTYPE}prototype_of('[{{\"op\": \"../Add\"}}]', 'add.json')\n",
        f'{_PROTOTYPE}arrays = f\'"output_desc": [{{{{"name": "y", {{kind}}}}}}]\'\n'
        "prototype_of(f'[{{\"op\": \"Zeros\", {arrays}}}]', 'zeros.json')\n",
    )


__all__ = ["NoOperator", "WrongPrototype"]
