"""Bridges to other packages: `triton` (source that runs unchanged), `helion` (its search and kernels), `transformers`.

`transformers` registers attention of the library for models of that package. `devices` shows the CPU to packages that
look for a GPU.
"""
