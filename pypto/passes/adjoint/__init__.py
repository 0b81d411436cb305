"""Reverse-mode differentiation of kernels, from Tile IR to Tile IR.

In comes optimised Tile IR of a kernel; out goes Tile IR of kernels that take gradients of what it stores to gradients
of what it loads. Read in this order: `activity` (which values have gradients), `footprint` (which elements a program
reads, and whether others read them too), `sweep` (the reverse sweep over regions), `memory` (loads become
accumulations, stores become loads), `derive` (the grid of the derived kernel, and what it sums in parts).

Beside them: `addresses`, `launch_values`, `ownership` and `stores` (who writes what), `in_place`, `bounded_loops`,
`reuse`, `shift_invariance` and `shift_rules`, `reassociation` with `polynomials` and `polynomial_trees`.
"""
