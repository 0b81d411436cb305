"""Lowering for cube cores: products, alone or mixed with vector cores.

In: Tile IR with products. Out: Block IR for the cube core, and for the vector cores beside it. Read `passes`
(what runs before), `lower`, `accumulators`, `layout`, `moves`, `product`, `operands`, `l1_resident`,
`swizzle`, `mixed`, `pipeline_emit`.
"""
