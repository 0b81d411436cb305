"""Target description: the facts about a machine that passes on Tile IR ask for, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pypto.blocking import AUTO, Blocking
from pypto.ir.core import Function


@dataclass(frozen=True, slots=True)
class CoarseningLimits:
    """How many rows or columns of a product the programs have that are coarsened to one, at most."""

    extent: int = 1024
    single_row_extent: int = 4096  # columns, where the result is one row
    strip_extent: int = 512  # of a strip along the grid's second axis
    min_rows: int = 16  # with so many rows or fewer, a strip is not worth it


@dataclass(frozen=True, slots=True)
class ProductLimits:
    """Sizes from which on, or up to which, a form of a matrix product pays. Measured on x86-64 with AVX-512."""

    skinny_rows: int = 16  # of A, with which B is read row by row, without packing
    column_rows: int = 16  # of A, up to which reading it by columns does not pay
    column_k: int = 256  # of a column-major A: of a deeper one, a block exceeds the first-level cache
    packed_k: int = 16  # from which packing into words pays
    amx_k_words: int = 4  # from which AMX pays
    swapped_k: int = 256  # from which a product pays for transposing C
    swapped_chain_k: int = 16  # the same of a chain of products, whose sum is transposed once
    transposed_rows: int = 32  # of scores, that fill two registers when attention is transposed


@dataclass(frozen=True, slots=True)
class CacheLines:
    """How caches hold memory, on x86-64 and most of AArch64."""

    line: int = 64  # bytes
    alias: int = 2048  # rows that lie a multiple of so many bytes apart share few sets of the first-level cache
    page: int = 4096  # buffers that begin a multiple of so many bytes apart share them, too
    spacing: int = 9 * 64  # bytes that keep such buffers apart


@dataclass(frozen=True, slots=True)
class AmxTile:
    """The tile registers of AMX: half of them accumulate, as two tiles of A by two of B."""

    rows: int = 16
    row_words: int = 16  # of 32 bits
    per_side: int = 2  # tiles of A, and of B, in a register tile


CACHE: Final = CacheLines()
AMX_TILE: Final = AmxTile()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """A core with vector registers, and perhaps a matrix unit, in front of two levels of cache of its own.

    `vector_bytes` are the bytes of a vector register, of which there are `registers`. `caches` are the bytes of each
    level of cache. `has_bf16_dot` is true where products of bfloat16 pairs are faster than those of float32 in their
    place, `has_amx` where one instruction multiplies tiles of these or of bytes (AMX). One instruction rounds a
    register to bfloat16 with `has_bf16_round`. `int8_bytes` is 1 where one instruction adds up four products of bytes,
    and 2 where one adds up two products of 16 bits.

    `with_overrides` puts in what a kernel's user chooses: `blocking`, and the limits that are fields of it.
    """

    vector_bytes: int
    registers: int
    caches: tuple[int, int, int]
    has_bf16_dot: bool = False
    has_bf16_round: bool = False
    int8_bytes: int = 4  # of a number of int8 as it is multiplied
    has_amx: bool = False
    l1_budget: int = 20 << 10  # bytes that a program may keep and prefetch in a first level of 32 KB or more
    stream_prefetch: int = 2 << 10  # prefetch distance in bytes, for streams from memory
    panel_cache: int = 4 << 20  # bytes of packed panels that a thread keeps: its part of a last-level cache
    coarsening: CoarseningLimits = CoarseningLimits()
    products: ProductLimits = ProductLimits()
    blocking: Blocking = AUTO  # what the user chooses


Target = TypeVar("Target", bound=TargetFacts)


def with_overrides(target: Target, function: Function) -> Target:
    """The target with the blocking that a function's user chooses."""
    chosen = Blocking(**dict(function.attrs.get("blocking", ())))  # type: ignore[arg-type]
    if chosen == AUTO:
        return target
    return replace(
        target,
        blocking=chosen,
        stream_prefetch=chosen.stream_prefetch or target.stream_prefetch,
        panel_cache=chosen.panel_cache or target.panel_cache,
        products=replace(target.products, skinny_rows=chosen.skinny_rows or target.products.skinny_rows),
    )
