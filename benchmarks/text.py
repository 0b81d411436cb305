"""Figures as people read them."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """Seconds with a fitting unit.

    Examples
    --------
    >>> duration(0.0021), duration(3.2e-6), duration(None)
    ('2.10 ms', '3.20 µs', '')
    """
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def rate(value: float, unit: str) -> str:
    """Work per second with a fitting prefix.

    Examples
    --------
    >>> rate(2.5e12, "flop"), rate(31.4e9, "B"), rate(4e6, "call")
    ('2500 Gflop/s', '31.4 GB/s', '4.0 Mcall/s')
    """
    prefix, scale = next(((p, s) for p, s in (("G", 1e9), ("M", 1e6), ("k", 1e3)) if value >= s), ("", 1.0))
    return f"{value / scale:.{0 if value >= 1e11 else 1}f} {prefix}{unit}/s"
