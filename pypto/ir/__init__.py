"""Tile IR: typed SSA with regions. This room knows no op by name.

Read `types`, `core` and `builder`; then `type_queries`, `rewrite`, `printer` and `parser`.
"""
