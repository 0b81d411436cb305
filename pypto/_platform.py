"""What pypto runs on, and who else claims its import name. The build hook loads this file by its path."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
IMPORTED: Final = time.time_ns()  # when the package was: files of it that were edited since are not what runs

OLDEST: Final = (3, 11)

# The places where numpy, ml_dtypes and llvmlite have wheels.
SUPPORTED: Final = (
    ("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "amd64"), ("win32", "arm64")
)  # fmt: skip
_NEWER: Final = "make an environment with a newer Python"
_CPYTHON: Final = "make an environment with CPython"
_BUILD: Final = "install the 64-bit build of Python"
_ELSEWHERE: Final = "use one of those, for instance in a container or a virtual machine"
_ASK_FOR_TILES: Final = (158, 0x1023, 18)  # arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA) of x86-64
SYSTEM_NAMES: Final = "Linux with glibc (x86-64, aarch64), macOS (arm64) and Windows (x86-64, arm64)"


class Host(NamedTuple):
    """The running interpreter, as far as it decides whether pypto can be installed."""

    version: tuple[int, int]
    implementation: str
    bits: int
    system: str
    machine: str
    musl: bool

    @classmethod
    def current(cls) -> Host:
        # platform.machine() would do, but asks WMI on Windows, which can take seconds.
        machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
        musl = "musl" in getattr(sys.implementation, "_multiarch", "")
        bits = 64 if sys.maxsize > 2**32 else 32
        return cls(sys.version_info[:2], sys.implementation.name, bits, sys.platform, machine.lower(), musl)


def refusal(host: Host) -> str | None:
    """Why pypto does not run on `host`, as a sentence with the way out, or None.

    Examples
    --------
    >>> refusal(Host((3, 12), "cpython", 64, "linux", "x86_64", musl=False))
    >>> refusal(Host((3, 10), "cpython", 64, "linux", "x86_64", musl=False))
    'pypto-jit needs Python 3.11 or later and this is Python 3.10: make an environment with a newer Python.'
    """
    needed, actual = (".".join(map(str, version)) for version in (OLDEST, host.version))
    libc = " with musl" if host.musl else ""
    place = f"{SYSTEM_NAMES}, and this is {host.system}{libc} on {host.machine}"
    rows = (
        (host.version >= OLDEST, f"needs Python {needed} or later and this is Python {actual}", _NEWER),
        (host.implementation == "cpython", f"needs CPython and this is {host.implementation}", _CPYTHON),
        (host.bits == 64, f"needs a 64-bit Python and this one has {host.bits} bits", _BUILD),
        ((host.system, host.machine) in SUPPORTED and not host.musl, f"runs on {place}", _ELSEWHERE),
    )
    return next((f"pypto-jit {problem}: {way}." for fits, problem, way in rows if not fits), None)


def check_platform(host: Host | None = None) -> None:
    """Stop the import where pypto cannot run.

    Parameters
    ----------
    host : Host, optional
        The interpreter to judge; the running one by default.

    Raises
    ------
    ImportError
        With one sentence that says what is missing and what to do.

    Examples
    --------
    >>> check_platform(Host((3, 13), "cpython", 64, "darwin", "arm64", musl=False))
    """
    sentence = refusal(host or Host.current())
    if sentence is not None:
        raise ImportError(sentence)


def cann_conflict(distributions: Iterable[Distribution] | None = None) -> str | None:
    """Say whether another distribution, such as CANN's `pypto`, provides the package `pypto` as well.

    Parameters
    ----------
    distributions : iterable of importlib.metadata.Distribution, optional
        Where to look; by default the installed ones, and those only when a glance at the folders gives cause,
        because reading all metadata takes longer than the rest of the import.

    Returns
    -------
    str or None
        A sentence with the remedy, or None when the name is ours alone.

    Examples
    --------
    >>> cann_conflict([])
    """
    if distributions is None:
        if not suspicious(sys.path, os.path.dirname(__file__)):
            return None
        from importlib import metadata

        distributions = metadata.distributions()
    other = next(filter(_claims_pypto, distributions), None)
    if other is None:
        return None
    name = other.metadata["Name"]
    return (
        f"the distribution {name} {other.version} is installed in this environment too, and it is imported as `pypto` "
        "just as pypto-jit is: give each a virtual environment of its own, or remove both with "
        f"`pip uninstall {name} pypto-jit` and then install pypto-jit again."
    )


def suspicious(path: Sequence[str], package: str) -> bool:
    """Whether a folder of `path` holds metadata of a distribution `pypto`, or `package` holds compiled code.

    pypto-jit has no compiled module, so one in its folder was put there by somebody else.
    """
    if any(name.endswith((".so", ".pyd")) for name in _listing(package)):
        return True
    names = (name.lower() for folder in path for name in _listing(folder or "."))
    return any(name.startswith(("pypto-", "pypto.")) and name.endswith((".dist-info", ".egg-info")) for name in names)


def _listing(folder: str) -> list[str]:
    with suppress(OSError):  # an entry of sys.path may be missing, unreadable or a zip file
        return os.listdir(folder)
    return []


def _claims_pypto(distribution: Distribution) -> bool:
    try:
        fields = distribution.metadata
    except (TypeError, OSError):  # a half-removed distribution has no metadata file
        return False
    name = fields["Name"].lower().replace("_", "-") if "Name" in fields else ""
    if name in ("", "pypto-jit"):
        return False
    return name == "pypto" or any(file.parts[0] == "pypto" for file in distribution.files or ())


@functools.cache
def may_use_tiles() -> bool:
    """Ask Linux for the state of an x86-64 CPU's tile registers, which it gives to processes that ask.

    Processes forked from this one have it, too.
    """
    return sys.platform.startswith("linux") and bool(ctypes.CDLL(None).syscall(*_ASK_FOR_TILES) == 0)


def checkout() -> str:
    """The folder of the checkout that pypto is imported from; empty where it is installed as a package."""
    folder = os.path.dirname(PACKAGE)
    return folder if os.path.isfile(os.path.join(folder, "pyproject.toml")) else ""


def install_command(extra: str = "") -> str:
    """The command that installs pypto for this interpreter, with what an extra brings; in a checkout, from there.

    Examples
    --------
    >>> install_command("torch").endswith('[torch]"')
    True
    """
    what = f"{checkout() or 'pypto-jit'}{f'[{extra}]' if extra else ''}"
    return f'"{sys.executable}" -m pip install {"-e " if checkout() else ""}"{what}"'
