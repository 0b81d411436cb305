"""A quantisation scheme states the bits of a code, whether there are zero points, and which numbers share a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pypto.arguments import BOUNDARY
from pypto.errors.quant import WrongScheme
from pypto.quant.floats import FORMATS, FloatFormat

TENSOR: Final = "tensor"
CHANNEL: Final = "channel"
GROUP: Final = "group"
TOKEN: Final = "token"
GRANULARITIES: Final = (TENSOR, CHANNEL, GROUP, TOKEN)
OBSERVERS: Final = ("minmax", "percentile")
BITS: Final = (4, 8)
MX_GROUP: Final = 32


@dataclass(frozen=True, slots=True)
class Scheme:
    """A quantisation ``x ≈ (q - zero) * scale`` with integers, or small floats, q of few bits.

    Parameters
    ----------
    bits : int
        The bits of a code, 4 or 8. Codes are signed.
    symmetric : bool
        Whether zero points are 0. With 8 bits, -128 is then not used, so that codes can be negated.
    per : str
        The numbers that share a scale: those of a ``"tensor"``, a ``"channel"`` (an output of a layer), a ``"group"``
        of adjacent inputs of a channel, or, for activations, a ``"token"``.
    group : int
        The number of inputs in a group; the last group of a channel may have fewer.
    observer : str
        The observer of static activation scales: ``"minmax"`` takes the whole observed range, and ``"percentile"``
        leaves out the largest numbers, a fraction of ``1 - percentile / 100``.
    percentile : float
    form : str
        ``"int"``, or a float format: ``"e4m3"``, ``"e5m2"`` or, with four bits, ``"e2m1"``. Codes of floats are bit
        patterns, and have no zero points.
    powers : bool
        Whether scales are powers of two, as in microscaling formats; for floats only.

    Raises
    ------
    WrongScheme
        If fields do not fit together.

    Examples
    --------
    >>> Scheme(bits=4, per="group", group=128).high
    7
    """

    bits: int = 8
    symmetric: bool = True
    per: str = CHANNEL
    group: int = 0
    observer: str = "minmax"
    percentile: float = 99.99
    form: str = "int"
    powers: bool = False

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            refuse(f"a scheme of {self.bits} bits", "there are 4 and 8 bits")
        if self.per not in GRANULARITIES:
            refuse(f"scales per {self.per!r}", f"scales are per {', '.join(GRANULARITIES)}")
        if (self.per == GROUP) != (self.group > 0):
            refuse(f"scales per {self.per} with group={self.group}", "groups have at least one input: group=128")
        if self.observer not in OBSERVERS:
            refuse(f"the observer {self.observer!r}", f"observers are {', '.join(OBSERVERS)}")
        if not 50 < self.percentile <= 100:
            refuse(f"percentile={self.percentile:g}", "it is above 50 and at most 100")
        self.check_form()

    def check_form(self) -> None:
        """Refuses floats of other bits or with zero points."""
        if self.form != "int" and self.form not in FORMATS:
            refuse(f"the form {self.form!r}", f"there are int, {', '.join(FORMATS)}")
        form = self.format
        if form is None and self.powers:
            refuse("a scheme of integers with powers of two", "they belong to floats")
        if form is not None and (form.bits != self.bits or not self.symmetric):
            way = f"it has {form.bits} bits and is symmetric"
            refuse(f"{self.form} with {self.bits} bits and symmetric={self.symmetric}", way)

    @property
    def format(self) -> FloatFormat | None:
        """The format of floats; None for integers."""
        return FORMATS.get(self.form)

    @property
    def low(self) -> int:
        """The least code; for floats, which are bit patterns, the least int8."""
        if self.format is not None:
            return -128 if self.bits == 8 else 0
        return -127 if self.bits == 8 and self.symmetric else -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest code."""
        if self.format is not None:
            return 127 if self.bits == 8 else 15
        return (1 << (self.bits - 1)) - 1

    @property
    def steps(self) -> float:
        """The number of steps between the numbers of the least and the largest code."""
        if self.format is not None:
            return 2 * self.format.largest
        return self.high - self.low

    @property
    def name(self) -> str:
        """A short text, such as ``int4 symmetric, groups of 128``."""
        form = f"int{self.bits} {'symmetric' if self.symmetric else 'asymmetric'}"
        if self.format is not None:
            form = f"mxfp{self.bits} {self.form}" if self.powers else self.form
        return f"{form}, " + (f"groups of {self.group}" if self.group else f"per {self.per}")

    def __str__(self) -> str:
        return self.name

    def groups(self, columns: int) -> int:
        """Returns the number of scales of a channel with so many inputs."""
        return -(-columns // self.group) if self.per == GROUP else 1


def refuse(what: str, way: str) -> None:
    raise WrongScheme(what=f"{what} is not offered", way=way)


@BOUNDARY
def int8(per: str = CHANNEL, symmetric: bool = True, **more: Any) -> Scheme:
    """Int8, for weights per channel or for activations per token.

    Parameters
    ----------
    per : str
        ``"tensor"``, ``"channel"`` or ``"token"``.
    symmetric : bool
    **more
        Other fields of `Scheme`.

    Examples
    --------
    >>> int8(per="token").name
    'int8 symmetric, per token'
    """
    return Scheme(8, symmetric, per, **more)


@BOUNDARY
def int4(group: int | None = None, symmetric: bool = True, **more: Any) -> Scheme:
    """Int4 for weights, with scales of groups of inputs, or of channels if there is no `group`.

    Examples
    --------
    >>> int4(group=128).groups(384)
    3
    """
    per = CHANNEL if group is None else GROUP
    return Scheme(4, symmetric, per, group or 0, **more)


@BOUNDARY
def fp8(form: str = "e4m3", per: str = CHANNEL, **more: Any) -> Scheme:
    """Floats of eight bits, ``"e4m3"`` or ``"e5m2"``, for weights or, per token, for activations.

    Examples
    --------
    >>> fp8("e5m2", per="tensor").name
    'e5m2, per tensor'
    """
    return Scheme(8, True, per, form=form, **more)


@BOUNDARY
def mxfp8(form: str = "e4m3") -> Scheme:
    """MXFP8: floats of eight bits that share a power of two in groups of 32 inputs.

    Examples
    --------
    >>> mxfp8().name
    'mxfp8 e4m3, groups of 32'
    """
    return Scheme(8, True, GROUP, MX_GROUP, form=form, powers=True)


def mxfp4() -> Scheme:
    """MXFP4: floats of four bits (E2M1) that share a power of two in groups of 32 inputs.

    Examples
    --------
    >>> mxfp4().name
    'mxfp4 e2m1, groups of 32'
    """
    return Scheme(4, True, GROUP, MX_GROUP, form="e2m1", powers=True)
