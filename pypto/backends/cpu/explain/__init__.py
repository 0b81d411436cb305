"""Explanations of the CPU backend: the texts of its levels, and why a kernel was compiled as it was.

In: a prepared Tile IR function and its `CpuTarget`. Out: texts and findings. Nothing here takes part in a compilation.
Read in this order: `levels`, `passes` (the IR after each), `line_tables` (which instruction belongs to which source
line), `widths`, `decisions`, which asks `stores`, `fusion` and `memory`.
"""
