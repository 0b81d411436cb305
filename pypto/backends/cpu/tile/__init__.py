"""Tile IR to Tile IR: the forms that the CPU lowers best.

In: optimised Tile IR. Out: Tile IR with the same meaning, or several functions among which a launch chooses.
Read `legalize` first; then the loop transformations `normalize_loops`, `unswitch_modulo` and `k_blocking`; then
`swap_operands` and `transpose_attention`, which change the orientation of products; then `coarsening` and
`coarsen_2d`, which merge neighbouring programs.
"""
