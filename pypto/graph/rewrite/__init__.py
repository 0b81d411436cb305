"""Rewrites of a graph that keep its meaning: algebra on nodes, before any kernel is decided.

`simplify` folds while a graph is built. `pipeline` has the pass list, whose passes are each a `node_rule`:
`gather_pushdown`, `concat_elimination`, `late_division`, `late_reshape`, `narrow_products`, `unpacking`,
`split_reduction` and `split_k`.
"""
