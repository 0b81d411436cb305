"""Bridges to other kernel languages: `triton` (source that runs unchanged) and `helion` (its search and kernels)."""
