"""The facts about a machine that passes on Tile IR ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from pypto.blocking import AUTO, Blocking
from pypto.ir.core import Function


@dataclass(frozen=True, slots=True)
class CoarseningLimits:
    """How many rows or columns of a product the programs have that are coarsened to one, at most."""

    extent: int = 1024
    single_row_extent: int = 4096  # columns, where the result is one row
    strip_extent: int = 512  # of a strip along the grid's second axis
    min_rows: int = 16  # with so many rows or fewer, a strip is not worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """A core with vector registers, and perhaps a matrix unit, in front of two levels of cache of its own.

    `vector_bytes` are the bytes of a vector register, of which there are `registers`. `caches` are the bytes of each
    level of cache. `has_bf16_dot` is true where products of bfloat16 pairs are faster than those of float32 in their
    place, `has_int8_dot` where one instruction adds up four products of bytes, `has_amx` where one instruction
    multiplies tiles of both (AMX). One instruction rounds a register to bfloat16 with `has_bf16_round`.
    """

    vector_bytes: int
    registers: int
    caches: tuple[int, int, int]
    has_bf16_dot: bool = False
    has_bf16_round: bool = False
    has_int8_dot: bool = False
    has_amx: bool = False
    coarsening: CoarseningLimits = CoarseningLimits()
    blocking: Blocking = AUTO  # what the user chooses


Target = TypeVar("Target", bound=TargetFacts)


def with_overrides(target: Target, function: Function) -> Target:
    """The target with the blocking that a function's user chooses."""
    return replace(target, blocking=Blocking(**dict(function.attrs.get("blocking", ()))))  # type: ignore[arg-type]
