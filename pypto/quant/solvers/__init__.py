"""Quantisation algorithms choose codes and scales of a weight; each module has some by their names.

Read `algorithm` (what an algorithm is, and the registry), `rtn` (rounding to nearest), `scaling`,
`smoothquant` and `awq` (factors of the inputs), and `gptq` (error compensation).
"""
