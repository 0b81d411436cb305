"""Tile IR to Tile IR, and the analyses that decide how a kernel is cut for Ascend.

In: optimised Tile IR. Out: Tile IR whose tiles fit the unified buffer, or the two sides of a mixed kernel.
Read `coarsening`, `dimension_classes`, `tile_splitting`, `range_analysis`, `grid_invariants`, `ub_layout` for vector
kernels; `cube_regions`, `operand_facts`, `fractals`, `k_blocking`, `blocking`, `core_partition`, `row_split` for
products; `software_pipeline`, `pipeline_partition`, `column_tiling` for mixed kernels; `gm_hazards`, `nonnegative`,
`scev`.
"""
