"""Lowering for vector cores: Tile IR to Block IR.

In: Tile IR. Out: vector and scalar instructions on buffers. Read `fit_to_ub` (splits tiles until they fit), `lower`
(one handler per op), `builder`, `values`, `region`, `dma` and `row_copies` (copies), `elementwise`, `broadcast`
and `broadcast_operands`, `reduce`, `folding`, `scan`, `sort`, `control`.
"""
