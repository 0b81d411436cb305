"""LLVM IR of the loops that measure the machine: multiply-adds in registers, streams through memory.

Every loop is ``void (i64 repeats, i64 n, ptr dst, ptr a, ptr b)`` and passes ``repeats`` times over ``n`` floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Product:
    """An instruction that multiplies and adds: elements in the room of four floats, and the CPU features it needs."""

    total: str
    totals: int
    factor: str
    factors: int
    intrinsic: str
    features: frozenset[str] = frozenset()

    @property
    def flops(self) -> float:
        """Multiplications and additions, per float of the vector."""
        return 2 * self.factors / 4


PRODUCTS: Final[Mapping[str, Product]] = MappingProxyType({
    "fma": Product("float", 4, "float", 4, "llvm.fmuladd.v{totals}f32"),
    "fma64": Product("double", 2, "double", 2, "llvm.fmuladd.v{totals}f64"),
    "bf16": Product("float", 4, "bfloat", 8, "llvm.x86.avx512bf16.dpbf16ps.{bits}", frozenset({"avx512bf16"})),
    "int8": Product("i32", 4, "i8", 16, "llvm.x86.avx512.vpdpbusd.{bits}", frozenset({"avx512vnni"})),
})  # fmt: skip
# Products of tiles of 16 by 64 bytes (AMX), by the limit that they are beside the instructions above.
TILES: Final[Mapping[str, str]] = MappingProxyType({"bf16": "tdpbf16ps", "int8": "tdpbssd"})
TILE_FEATURES: Final = frozenset({"amx-tile", "amx-bf16", "amx-int8"})
TILE_CHAINS: Final = 4  # as a register kernel has: two tiles by two
CHAINS: Final = 12  # enough independent multiply-adds to hide their latency, few enough for 16 registers
UNROLL: Final = 8
STREAMS: Final = ("read", "copy", "add", "copy_nt", "add_nt")


def products(features: frozenset[str]) -> tuple[str, ...]:
    """Names of the multiply-adds that a machine with these features has."""
    return tuple(name for name, row in PRODUCTS.items() if row.features <= features)


def module(width: int, features: frozenset[str] = frozenset()) -> str:
    """All loops for vectors of `width` floats."""
    bits, names = 32 * width, products(features)
    return "\n".join([
        *(declared(PRODUCTS[name], width) for name in names), *(chains(name, width) for name in names),
        *(stream(name, width) for name in STREAMS), "!0 = !{i32 1}",
        # Without these LLVM may split 512-bit vectors on processors that it tunes for 256.
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}" }}',
    ])  # fmt: skip


def tile_operations(name: str) -> float:
    """Operations of one round of a loop of tile products."""
    return 2.0 * TILE_CHAINS * 16 * 16 * 4 * PRODUCTS[name].factors


def tiles_module(tiles: Sequence[str]) -> str:
    """Loops of tile products, on tiles of zeros, beside the others."""
    if not tiles:
        return ""
    names = ("ldtilecfg", "ptr"), ("tilezero", "i8"), *((way, "i8, i8, i8") for way in TILES.values())
    declared = [f"declare void @llvm.x86.{name}({types})" for name, types in names]
    return "\n".join(["", *declared, *map(tile_chains, tiles)])


def tile_chains(name: str) -> str:
    """n rounds of products into four tiles: registers 0 to 3, from 4 and 5, and 6 and 7."""
    shapes = [1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8]
    table = ", ".join(f"i8 {n}" for n in shapes)
    entry = ["  %table = alloca <64 x i8>, align 64", f"  store <64 x i8> <{table}>, ptr %table"]
    entry += ["  call void @llvm.x86.ldtilecfg(ptr %table)"]
    entry += [f"  call void @llvm.x86.tilezero(i8 {t})" for t in range(8)]
    sides = ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7))
    body = [f"  call void @llvm.x86.{TILES[name]}(i8 {c}, i8 {a}, i8 {b})" for c, a, b in sides]
    return _loop(f"{name}_tiles", 1, entry, body, [], [])


def vectors(row: Product, width: int) -> tuple[str, str, str]:
    """The types of accumulators and factors, and the intrinsic's name."""
    totals, factors = row.totals * width // 4, row.factors * width // 4
    name = row.intrinsic.format(totals=totals, bits=32 * width)
    return f"<{totals} x {row.total}>", f"<{factors} x {row.factor}>", name


def declared(row: Product, width: int) -> str:
    total, factor, name = vectors(row, width)
    types = (factor, factor, total) if name.startswith("llvm.fma") else (total, factor, factor)
    return f"declare {total} @{name}({', '.join(types)})"


def chains(name: str, width: int) -> str:
    """n rounds of CHAINS multiply-adds, none of which waits for another of its round."""
    total, factor, function = vectors(PRODUCTS[name], width)
    entry = [f"  %x = load {factor}, ptr %a, align 4"]
    body = []
    for k in range(CHAINS):
        given = [f"{factor} %x", f"{factor} %x", f"{total} %s{k}"]
        ordered = given if name.startswith("fma") else [given[2], *given[:2]]
        body.append(f"  %n{k} = call {total} @{function}({', '.join(ordered)})")
    return _loop(name, 1, entry, body, _total(total, CHAINS), _sums(total, CHAINS))


def stream(name: str, width: int) -> str:
    """``read`` adds up a, ``copy`` writes a to dst, ``add`` writes a + b; with ``_nt`` past the caches."""
    vec, kind, hint = f"<{width} x float>", name.removesuffix("_nt"), ", !nontemporal !0" if "_nt" in name else ""
    body: list[str] = []
    for k in range(UNROLL):
        body += [f"  %i{k} = add i64 %i, {k * width}", *_load(vec, width, "a", k)]
        if kind == "add":
            body += [*_load(vec, width, "b", k), f"  %w{k} = fadd {vec} %va{k}, %vb{k}"]
        if kind == "read":
            body.append(f"  %n{k} = fadd {vec} %s{k}, %va{k}")
        else:
            value = f"%w{k}" if kind == "add" else f"%va{k}"
            body.append(f"  %q{k} = getelementptr float, ptr %dst, i64 %i{k}")
            body.append(f"  store {vec} {value}, ptr %q{k}, align {4 * width}{hint}")
    sums = UNROLL if kind == "read" else 0
    return _loop(name, width * UNROLL, [], body, _total(vec, sums), _sums(vec, sums))


def _load(vec: str, width: int, source: str, k: int) -> list[str]:
    place = f"  %p{source}{k} = getelementptr float, ptr %{source}, i64 %i{k}"
    return [place, f"  %v{source}{k} = load {vec}, ptr %p{source}{k}, align {4 * width}"]


def _sums(vec: str, count: int) -> list[str]:
    return [f"  %s{k} = phi {vec} [ zeroinitializer, %outer ], [ %n{k}, %loop ]" for k in range(count)]


def _total(vec: str, count: int) -> list[str]:
    """Keeps the sums alive: their total goes to memory after every pass."""
    if not count:
        return []
    add = "add" if " x i" in vec else "fadd"
    adds = [f"  %t{k} = {add} {vec} {'%n0' if k == 1 else f'%t{k - 1}'}, %n{k}" for k in range(1, count)]
    return [*adds, f"  store {vec} %t{count - 1}, ptr %dst, align 4"]


def _loop(
    name: str, step: int, entry: Sequence[str], body: Sequence[str], after: Sequence[str], phis: Sequence[str]
) -> str:
    return "\n".join([
        f"define void @{name}(i64 %repeats, i64 %n, ptr noalias %dst, ptr noalias %a, ptr noalias %b) #0 {{",
        "entry:", *entry, "  br label %outer",
        "outer:", "  %r = phi i64 [ 0, %entry ], [ %again, %after ]", "  br label %loop",
        "loop:", "  %i = phi i64 [ 0, %outer ], [ %next, %loop ]", *phis, *body,
        f"  %next = add i64 %i, {step}", "  %more = icmp slt i64 %next, %n", "  br i1 %more, label %loop, label %after",
        "after:", *after, "  %again = add i64 %r, 1", "  %left = icmp slt i64 %again, %repeats",
        "  br i1 %left, label %outer, label %done",
        "done:", "  ret void", "}",
    ])  # fmt: skip
