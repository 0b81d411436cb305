"""Scheduling: from a graph to groups, each with an index space and a tiling.

Read `pipeline`, `partition` with `printer`, `group`, `axes`, `index_space` with `dim_relations`, `layout`, `fusion`
with `incremental_toposort` and `region_dedup`; then `tiling` and `product_tiling` with `contraction`, `dim_collapsing`,
`even_sizes` and `online_softmax`; and what runs after fusion, `code_sinking` and `rematerialize`.
"""
