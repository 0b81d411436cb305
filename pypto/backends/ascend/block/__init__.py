"""Block IR to Block IR: buffers get addresses, instructions an order, units their events.

In: instructions on unplaced buffers. Out: the same kernel, allocated and synchronised.
Order: `licm`, `copy_coalescing`, `in_place`, `double_buffering`, `stage_index`, `list_scheduling`,
`stage_interleaving`, `l2_bypass`; then `liveness`, `bank_conflicts`, `allocate`; then `access_extents`, `dependences`,
`hazards`, `vector_clocks`, `insert_sync`. `verify` and `race_checker` check whole kernels in tests.
"""
