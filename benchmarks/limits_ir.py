"""LLVM IR of the loops that measure the machine: multiply-adds in registers, streams through memory.

Every loop is ``void (i64 repeats, i64 n, ptr dst, ptr a, ptr b)`` and passes ``repeats`` times over ``n`` floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

CHAINS: Final = 12  # enough independent multiply-adds to hide their latency, few enough for 16 registers
UNROLL: Final = 8
LOOPS: Final = ("fma", "read", "copy", "add", "copy_nt", "add_nt")


def module(width: int) -> str:
    """All loops for vectors of `width` floats."""
    vec, bits = f"<{width} x float>", 32 * width
    streams = [stream(name, width) for name in LOOPS if name != "fma"]
    return "\n".join([
        f"declare {vec} @llvm.fma.v{width}f32({vec}, {vec}, {vec})", fma(width), *streams, "!0 = !{i32 1}",
        # Without these LLVM may split 512-bit vectors on processors that it tunes for 256.
        f'attributes #0 = {{ nounwind "min-legal-vector-width"="{bits}" "prefer-vector-width"="{bits}" }}',
    ])  # fmt: skip


def fma(width: int) -> str:
    """n rounds of CHAINS multiply-adds, none of which waits for another of its round."""
    vec = f"<{width} x float>"
    entry = [f"  %x = load {vec}, ptr %a, align 4"]
    body = [f"  %n{k} = call {vec} @llvm.fma.v{width}f32({vec} %x, {vec} %x, {vec} %s{k})" for k in range(CHAINS)]
    return _loop("fma", 1, entry, body, _total(vec, CHAINS), _sums(vec, CHAINS))


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
    adds = [f"  %t{k} = fadd {vec} {'%n0' if k == 1 else f'%t{k - 1}'}, %n{k}" for k in range(1, count)]
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
