"""The op table: one row per op, and what follows from a row. This room imports no backend.

Read `row` (the facts of an op), `table`, `rules` and `dims` (type and dimension rules), `build`, `verify`, `public`,
`target`. Families: `arith`, `casts`, `mathematics` (with `math`), `shape`, `select`, `reduce`, `memory`, `atomic`,
`matmul`, `control`. Lane rules: `emitter`. Gradients: `adjoint`, `adjoint_math`, `adjoint_tiles`.
"""
