"""Quantisation algorithms choose the codes and scales of a weight; the registry finds them by name.

Read `algorithm` (what an algorithm is, and the registry), `rtn` (rounding to nearest), `scaling`,
`smoothquant` and `awq` (factors of the inputs), and `gptq` (error compensation).
"""
