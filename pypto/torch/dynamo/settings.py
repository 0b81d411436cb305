"""The options of the backend `pypto` of torch.compile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.inductor import WrongSetting

# What a mode of torch.compile sets. A plan is replayed in one native call in every mode.
MODES: Final[Mapping[Any, Mapping[str, Any]]] = MappingProxyType(
    {
        None: {},
        "default": {},
        "reduce-overhead": {},
        "max-autotune": {"tune": True},
        "max-autotune-no-cudagraphs": {"tune": True},
    }
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a compilation.

    Parameters
    ----------
    strict : bool
        Whether an operation without a kernel is an error.
    tune : bool
        Whether the sizes of tiles are searched for at the first call.
    """

    strict: bool = False
    tune: bool = False


def settings(options: Mapping[str, Any] | None, mode: Any) -> Settings:
    """Return the settings for the arguments of torch.compile.

    Raises
    ------
    WrongSetting
        When an option or mode does not exist, or an option is no bool.
    """
    if mode not in MODES:
        known = ", ".join(repr(x) for x in MODES if x)
        raise WrongSetting(backend="pypto", setting=f"mode={mode!r}", problem=f"its modes are {known}")
    given = {**MODES[mode], **(options or {})}
    names = Settings.__dataclass_fields__
    for name, value in given.items():
        if name not in names:
            problem = f"its options are {', '.join(names)}"
        elif not isinstance(value, bool):
            problem = "it is True or False"
        else:
            continue
        raise WrongSetting(backend="pypto", setting=f"{name}={value!r}", problem=problem)
    return Settings(**given)
