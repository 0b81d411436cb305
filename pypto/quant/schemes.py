"""Quantisation schemes: how many bits, whether zero points are used, and which numbers share a scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pypto.errors.quant import WrongScheme

TENSOR: Final = "tensor"
CHANNEL: Final = "channel"
GROUP: Final = "group"
TOKEN: Final = "token"
GRANULARITIES: Final = (TENSOR, CHANNEL, GROUP, TOKEN)
OBSERVERS: Final = ("minmax", "percentile")
BITS: Final = (4, 8)


@dataclass(frozen=True, slots=True)
class Scheme:
    """An affine quantisation ``x ≈ (q - zero) * scale`` with integers q of few bits.

    Parameters
    ----------
    bits : int
        4 or 8. Codes are signed.
    symmetric : bool
        Zero points are 0. With 8 bits -128 is then left out, so that codes can be negated.
    per : str
        Which numbers share a scale: those of a ``"tensor"``, of a ``"channel"`` (an output of a layer), of a
        ``"group"`` of neighbouring inputs of a channel, or, for activations, of a ``"token"``.
    group : int
        Inputs of a group; the last group of a channel may have fewer.
    observer : str
        For static scales of activations: ``"minmax"`` takes the whole range that was seen, ``"percentile"`` leaves out
        the share ``1 - percentile / 100`` of the numbers, the largest.
    percentile : float

    Raises
    ------
    WrongScheme
        For fields that do not go together.

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

    @property
    def low(self) -> int:
        """The least code."""
        return -127 if self.bits == 8 and self.symmetric else -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest code."""
        return (1 << (self.bits - 1)) - 1

    @property
    def steps(self) -> int:
        """Steps between the least and the largest code."""
        return self.high - self.low

    @property
    def name(self) -> str:
        """A short text, as in ``int4 symmetric, groups of 128``."""
        form = "symmetric" if self.symmetric else "asymmetric"
        return f"int{self.bits} {form}, " + (f"groups of {self.group}" if self.group else f"per {self.per}")

    def groups(self, columns: int) -> int:
        """Scales of a channel with so many inputs."""
        return -(-columns // self.group) if self.per == GROUP else 1


def refuse(what: str, way: str) -> None:
    raise WrongScheme(what=f"{what} is not offered", way=way)


def int8(per: str = CHANNEL, symmetric: bool = True, **more: Any) -> Scheme:
    """Eight bits, for weights per channel or for activations per token.

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


def int4(group: int | None = None, symmetric: bool = True, **more: Any) -> Scheme:
    """Four bits for weights, with scales of groups of inputs, or of channels without `group`.

    Examples
    --------
    >>> int4(group=128).groups(384)
    3
    """
    per = CHANNEL if group is None else GROUP
    return Scheme(4, symmetric, per, group or 0, **more)
