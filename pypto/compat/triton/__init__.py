"""Triton's source unchanged: pypto under the name `triton`.

`install()` serves the modules `triton`, `triton.language` and the rest to every later import of this process;
``python -m pypto.compat.triton script.py`` runs a script so.

The tree of modules: `tree`, `lang`, `aggregates`, `standard`, `mxfp`, `ragged`, `gluon`, `utils`, `refused`. Kernels:
`kernels`, `compiled`, `compiler`, `accesses`, `copies`, `shared`, `versions`, `inside`, `driver`. Settings: `knobs`,
`inert_knobs`, `hooks`. For Triton's own tests: `testing_helpers`.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from types import ModuleType

from pypto.errors import PyptoWarning

__all__ = ["install", "installed", "uninstall"]

_MARK = "__pypto_hidden__"  # on our `triton`: the modules that it stands before
_OURS = "pypto_triton"  # where the module comes from that the distribution pypto-triton finds


def installed() -> bool:
    """Whether `triton` is pypto in this process."""
    return hasattr(sys.modules.get("triton"), _MARK)


def install() -> ModuleType:
    """Serve pypto as `triton` to this process; gives the module. A Triton that is installed is left as it is.

    Warns
    -----
    PyptoWarning
        When it stands before a Triton that is installed.

    Examples
    --------
    >>> from pypto.compat.triton import install, uninstall
    >>> triton = install()
    >>> triton.cdiv(10, 4)
    3
    >>> uninstall()
    """
    if installed():
        return sys.modules["triton"]
    from pypto.compat.triton.tree import build

    if real_triton() is not None:
        text = f"pypto stands for `triton` in this process, and hides the one at {real_triton()}"
        warnings.warn(text, PyptoWarning, stacklevel=2)
    hidden = {name: module for name, module in sys.modules.items() if is_triton(name)}
    modules = build()
    setattr(modules["triton"], _MARK, hidden)
    for name in hidden:
        del sys.modules[name]
    sys.modules.update(modules)
    return modules["triton"]


def uninstall() -> None:
    """Take `install` back: later imports of `triton` find what they found before."""
    if not installed():
        return
    hidden = getattr(sys.modules["triton"], _MARK)
    for name in [name for name in sys.modules if is_triton(name)]:
        del sys.modules[name]
    sys.modules.update(hidden)


def is_triton(name: str) -> bool:
    return name == "triton" or name.startswith("triton.")


def real_triton() -> str | None:
    """Where a Triton that is not pypto lies."""
    try:
        spec = importlib.util.find_spec("triton")
    except ValueError:  # a module without a spec: something else stands for it already
        return "sys.modules"
    return spec.origin if spec and spec.origin != _OURS else None
