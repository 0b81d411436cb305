"""Bridges to other packages: `triton` (source that runs unchanged), `helion` (its search and kernels), `transformers`.

The last one registers attention of the library for models of that package.
"""
