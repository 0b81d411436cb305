"""Quantisation algorithms choose codes and scales of a weight; each is a module with an `ALGORITHM`.

Read `algorithm` (what an algorithm is, and the registry), `minmax` and `percentile` (rounding to nearest), `scaling`,
`smoothquant` and `awq` (factors of the inputs), and `gptq` (error compensation).
"""
