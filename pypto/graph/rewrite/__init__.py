"""Rewrites of a graph that keep its meaning: algebra on nodes, before any kernel is decided.

`simplify` folds while a graph is built, and has the form of rules on nodes. `pipeline` has the pass list, with the
rules on products and reductions; others are in `gather_pushdown`, `concat_elimination` and `unpacking`.
"""
