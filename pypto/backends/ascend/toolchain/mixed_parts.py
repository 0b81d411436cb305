"""Mixed kernels in the older form: one source per kind of core, as compilers before 8.5 need it.

Such a compiler makes an object for one kind of core. A mixed kernel is compiled twice, and the linker joins the two
objects, so the two functions need different names. The runtime finds the kernel by the name without the suffix
``_mix_aic`` or ``_mix_aiv``. On 910B the flags between cores lie at an address of the device (FFTS), which the kernel
gets as its first argument and gives to the core before it sets a flag. Newer compilers do both by themselves.

The rewriting is legal for text that `emit` made: it has one kernel, and its body begins with ``InitSocState();``. Lines
keep their numbers, so that errors are found at the user's line.
"""

from __future__ import annotations

import re
from typing import Final

from pypto.errors import CompilerBug

SUFFIXES: Final = {"cube": "_mix_aic", "vec": "_mix_aiv"}
# Qualifiers that these compilers do not know: the architecture on their command line says the same.
QUALIFIERS: Final = ("-D__vector__=", "-D__cube__=", "-D__mix__(...)=")
_SYNC_ARCH: Final = "dav-2201"  # the one whose flags lie at an address that a launch passes
_HEAD: Final = re.compile(r"(__mix__\([^)]*\) __aicore__ void \w+)\((\)?)")
_BEGIN: Final = "InitSocState();"


def takes_sync_address(kind: str, arch: str) -> bool:
    """Whether a kernel in this form has the address of the flags between cores as its first argument."""
    return kind == "mix" and arch == _SYNC_ARCH


def mixed_part(text: str, core: str, arch: str) -> str:
    """Rewrite a mixed kernel's text for one kind of core.

    Parameters
    ----------
    text : str
        Ascend C of one mixed kernel.
    core : str
        ``cube`` or ``vec``.
    arch : str
        As bisheng takes it.

    Examples
    --------
    >>> text = 'extern "C" __global__ __mix__(1, 2) __aicore__ void k(GM_ADDR x) {\\n    InitSocState();\\n}\\n'
    >>> print(mixed_part(text, "cube", "dav-2201"))
    extern "C" __global__ __mix__(1, 2) __aicore__ void k_mix_aic(GM_ADDR sync_address, GM_ADDR x) {
        SetSyncBaseAddr((uint64_t)sync_address); InitSocState();
    }
    <BLANKLINE>
    """
    has_address = takes_sync_address("mix", arch)
    parameter = "GM_ADDR sync_address" if has_address else ""
    made, heads = _HEAD.subn(lambda found: f"{found[1]}{SUFFIXES[core]}({_first(parameter, found[2])}", text)
    if heads != 1 or made.count(_BEGIN) != 1:
        raise CompilerBug(f"the text of a mixed kernel has {heads} heads, and {_BEGIN} {made.count(_BEGIN)} times")
    return made.replace(_BEGIN, f"SetSyncBaseAddr((uint64_t)sync_address); {_BEGIN}") if has_address else made


def _first(parameter: str, end: str | None) -> str:
    """A parameter before the others; `end` closes the list where there are no others."""
    return f"{parameter}{end or ''}" if end or not parameter else f"{parameter}, "
