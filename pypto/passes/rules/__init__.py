"""Rewrite rules of `canonicalize`, as data: `algebra` (arithmetic), `shapes` (movement), and `fold_comparisons`."""
