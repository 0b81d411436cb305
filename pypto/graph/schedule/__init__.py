"""Scheduling: from a graph to groups, each with an index space and a tiling.

Read `pipeline` (the passes), `fusion` with `printer`, `group` and `index_space`; then `tiling`, `product_tiling` and
`online_softmax`.
"""
