"""Lowering for vector cores: Tile IR to Block IR.

In: Tile IR whose tiles fit. Out: vector and scalar instructions on buffers. Read `lower` (one handler per op),
`builder`, `values`, `region` and `dma` (copies), `elementwise`, `broadcast` and `broadcast_operands`, `reduce`,
`scan`, `sort`, `control`, `scalars` (the scalar unit, for what the vector unit lacks).
"""
