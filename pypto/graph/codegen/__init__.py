"""Code generation: from a group to the source of a kernel in the kernel language.

Read `kernel_text` (a group line by line) with `writer`, `op_text`, `product_text` and `nan_tests`; `shape_versions` (a
second body for few rows), `scatter`, `tile_candidates` and `best_configurations` (tuned sizes), `kernels` (source as a
kernel).
"""
