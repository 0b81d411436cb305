"""Code generation: from a group to the source of a kernel in the kernel language.

Read `kernel_text` (a group line by line) with `op_text`, `reads` and `writer` (which makes the kernel of a source as
well); `scatter`, `tile_candidates` and `best_configurations` (tuned sizes).
"""
