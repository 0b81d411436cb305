"""Ops that are algorithms of their own: `sort`, `histogram`, `atomics`.

In: the op and its buffers. Out: LLVM IR text. `registry` finds a lowering by the op's name and loads it with the
first kernel that needs it.
"""
