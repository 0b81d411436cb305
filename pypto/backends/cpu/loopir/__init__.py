"""Loop IR: a kernel as an ordered tree of fused loop nests over planned scratch memory.

In: legal Tile IR. Out: a `Schedule` of nests, library ops, scalars and control flow, with buffers at fixed offsets.
Read `ir` (the level), `index_maps` (how elements depend on elements), `materialize` (which tiles get memory),
`allocate` (buffers and offsets), `build` (statements), `use_sets` (what a statement reads), `fusion` and
`interchange` (loops), `array_contraction` (buffers that shared loops shrink), `cost` (estimates), `printer`, `parser`
and its `scanner`, `verify`.
"""
