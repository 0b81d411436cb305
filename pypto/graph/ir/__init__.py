"""The Tensor graph as data: types, nodes with their text, named dimensions, parser, verifier and reference.

Read `types`, `dims` and `guards` (sizes), `node`, `node_table` and `movements` (ops on whole arrays), `type_rules`,
`strides`, `tile_limits`, `op_facts`, `location` (the user's lines); then `printer`, `parser`, `verify`, `reference`.
"""
