"""Rewrites of a graph that keep its meaning: algebra on nodes, before any kernel is decided.

Read `simplify`, `gather_pushdown`, `concat_elimination`, `split_reduction`, `split_k`, `narrow_products`.
"""
