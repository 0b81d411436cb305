"""Rows of quantisation, and of products with quantised operands.

Read `quant`, `weights` (codes of four and eight bits), `int8_activations`, `int8_convolution`, `mx` (groups of small
floats), and `qat` (fake quantisation for training).
"""
