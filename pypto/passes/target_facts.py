"""The facts about a machine that passes on Tile IR ask for."""

from __future__ import annotations

from dataclasses import dataclass


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
