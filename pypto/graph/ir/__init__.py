"""The Tensor graph as data: types, nodes with their text, named dimensions, parser, verifier and reference.

Read `types`, `dims` (sizes), `node`, `node_table` and `movements` (ops on whole arrays), `type_rules`, `batching`;
`storage` is memory that views share, `locations` has lines of other front ends; then `parser`, `verify`, `reference`.
"""
