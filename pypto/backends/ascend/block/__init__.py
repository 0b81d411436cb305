"""Block IR to Block IR: buffers get addresses, instructions an order, units their events.

In: instructions on unplaced buffers. Out: the same kernel, allocated and synchronised.
Order: `licm`, `copy_coalescing`, `in_place`, `double_buffering`, `stage_index`, `list_scheduling`,
`stage_interleaving`, `l2_bypass`; then `liveness`, `bank_conflicts`, `allocate`; then `access_extents`, `dependences`,
`accumulation`, `unit_flags`; then `hazards`, `vector_clocks`, `insert_sync`. `verify`, `race_checker` and
`unit_flag_checker` check whole kernels in tests.
"""
