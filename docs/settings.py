"""Writes the page of all settings from the tables of `pypto.options`: ``docs/settings.md``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.blocking import AUTO
from pypto.options import INTERNAL, KernelOptions, Settings

PAGE: Final = Path(__file__).with_name("settings.md")
HEAD: Final = """# Settings

All that can be set, in one place. Written by `python -m docs.settings` from the tables in `pypto/options.py`.

## Of the process

These are variables of the environment. They are read at the first launch. A name under `PYPTO_` that means nothing is
warned of, and a value that cannot be used is an error. `0`, `no`, `off` and `false` are off; `1`, `yes`, `on` and
`true` are on.

| variable | default | values | meaning |
|---|---|---|---|
"""
IN_A_PROGRAM: Final = """
In a program, [`pto.set_num_threads`](reference/set_num_threads.md) sets the threads of all launches,
[`with pto.device(…)`](reference/device.md) where they run, [`with pto.checked()`](reference/checked.md) the checks, and
[`with pto.interpreter()`](reference/interpreter.md) the interpreter.

## Of one kernel

These are options of [`@pto.jit`](reference/jit.md), as in `@pto.jit(num_threads=1, fast_math=True)`. What is tunable
may stand in a `pto.Config`, too, so that [`pto.autotune`](reference/autotune.md) tries it. An unknown name is an error.

| option | default | tunable | meaning |
|---|---|---|---|
"""
OTHERS_HEAD: Final = """
Options of [`pto.fuse`](reference/fuse.md), [`pto.autotune`](reference/autotune.md),
[`pto.adjoint`](reference/adjoint.md) and [`pto.verify`](reference/verify.md) stand on their pages, those of `pypto`
commands behind `--help`.

## Variables of other programs

| variable | meaning |
|---|---|
"""
# Variables of others that the package, or its simulated device, asks the environment for.
OTHERS: Final = MappingProxyType({
    "ASCEND_HOME_PATH": "the CANN toolkit; the toolkit's `set_env.sh` sets it",
    "ASCEND_TOOLKIT_HOME": "the CANN toolkit, where `ASCEND_HOME_PATH` is not set",
    "ASCEND_CUSTOM_OPP_PATH": "folders of operators of one's own, on the simulated device as on a real one",
    "ASCSIM_SOC": "the chip that the simulated device is, by CANN's name for it; `Ascend910B2` without",
    "ASCSIM_SEED": "the order in which the cores of the simulated device run; 1 without",
    "ASCSIM_SECONDS": "how long a kernel may run on the simulated device before it is stopped; 600 without",
    "ASCSIM_CXX": "the C++ compiler of kernels for the simulated device",
    "ASCSIM_WARNINGS": "`error`: all warnings of that compiler are on",
    "CC": "the C compiler and linker of `pypto aot`; `cc` without",
    "CI": "where it is set, a search of the autotuner draws no progress bar",
    "TRITON_INTERPRET": "1: source written for Triton runs in the interpreter",
})  # fmt: skip


def setting_row(row: Field[Any]) -> str:
    values = ", ".join(f"`{choice}`" for choice in row.metadata["choices"]) or kind(row.default)
    return f"| `{row.metadata['env']}` | {default_text(row.default)} | {values} | {row.metadata['doc']} |"


def option_row(row: Field[Any]) -> str:
    tunable = "yes" if row.metadata["tunable"] else ""
    return f"| `{row.name}` | {default_text(row.default)} | {tunable} | {row.metadata['doc']} |"


def kind(default: Any) -> str:
    """What kind of value a setting without choices has."""
    return {bool: "on or off", int: "a number", str: "text"}[type(default)]


def default_text(default: Any) -> str:
    """A default as a person writes it; nothing for an empty text."""
    if default is AUTO:
        return "`pto.Blocking()`"
    return f"`{default}`" if default != "" else ""


def page() -> str:
    """The whole page."""
    options = [row for row in fields(KernelOptions) if row.name not in INTERNAL]
    others = (f"| `{name}` | {meaning} |" for name, meaning in OTHERS.items())
    return (
        lines(HEAD, map(setting_row, fields(Settings)))
        + lines(IN_A_PROGRAM, map(option_row, options))
        + lines(OTHERS_HEAD, others)
    )


def lines(head: str, rows: Iterable[str]) -> str:
    return head + "".join(f"{row}\n" for row in rows)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
