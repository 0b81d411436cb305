"""Handlers of ops: each function lowers one op of Tile IR, or a family of ops, to instructions of a vector core.

Read `elementwise` and `shape`; then `broadcast`, `reduce`, `argreduce`, `scan`, `sort`, `gather_slice`, `dot`,
`atomics` and `control` (loops and branches). `lower` has the table from ops to these functions.
"""
