"""Lowering for vector cores: Tile IR to Block IR.

In: Tile IR whose tiles fit the unified buffer. Out: vector and scalar instructions on buffers. Read `lower` (one
handler per op), `builder`, `values`, `naming`; copies: `region`, `dma`, `row_copies`, `scalar_access`, `masks`,
`padding`; tiles: `elementwise`, `broadcast`, `broadcast_operands`, `shape`, `gather_slice`, `strided_select`,
`narrow_int64`;
reductions: `reduce`, `nan_facts`, `folding`, `argreduce`, `scan`, `dot`; then `sort`, `atomics`, `bulk_atomics`,
`control`, `pointer_select`.
"""
