"""Loop IR to LLVM IR text, nest by nest.

In: a `Schedule`. Out: the text of one function that runs a range of programs.
Read `function` (the loop over programs), `nest` (one loop nest), `values` (elements where they are read),
`tile_access` and `memory` (addresses and masks); then the techniques, one a file: `strip_mining`, `peeling`,
`trip_count`, `register_transpose`, `reductions`, `nan_speculation`, `pipelined_reduction`, `persistent_loops`,
`prefetch`, `nontemporal`, `load_hoisting`, `split_stores`, `interleaved`, `outlining`; and `dispatch` (which version of
a kernel runs).
"""
