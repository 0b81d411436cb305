"""Lowering for vector cores: Tile IR to Block IR.

In: Tile IR whose tiles fit the unified buffer. Out: vector and scalar instructions on buffers. Read `lower` (one
handler per op), `builder`, `values`, `naming`, then `handlers`; copies: `region`, `dma`, `row_copies`,
`scalar_access`, `masks`, `padding`; parts of handlers: `broadcast_operands`, `strided_select`, `narrow_int64`,
`nan_facts`, `folding`, `bulk_atomics`, `pointer_select`.
"""
