"""Tile IR to Tile IR, and the analyses that decide how a kernel is cut for Ascend.

In: optimised Tile IR. Out: Tile IR whose tiles fit the unified buffer, or the two sides of a mixed kernel. Read:
* all kernels: `activation_idioms`, `interleaving`, `narrow_comparisons`;
* vector kernels: `coarsening`, `tile_splitting`, `reduction_levels`, `reduction_splitting`, `grid_invariants`,
  `ub_layout`;
* products: `scalar_loads`, `float8_operands`, `cube_regions`, `operand_facts`, `fractals`, `k_blocking`, `blocking`;
* mixed kernels: `transfers`, `core_partition`, `row_split`, `software_pipeline`, `pipeline_partition`,
  `column_tiling`, `gm_hazards`.
Dimensions, integer ranges and scalar evolution are analysed in `pypto.passes`.
"""
