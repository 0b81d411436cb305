"""Loop IR: a kernel as an ordered tree of fused loop nests over planned scratch memory.

In: legal Tile IR. Out: a `Schedule` of nests, library ops, scalars and control flow, with buffers at fixed offsets.
Read `ir` (the level), `materialize` (which tiles get memory), `index_maps` (how elements depend on elements),
`allocate` (buffers and offsets), `build` (statements), `fusion` and `interchange` (loops), `cost`, `printer`.
"""
