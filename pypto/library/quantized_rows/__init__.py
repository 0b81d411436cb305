"""Rows of quantisation, and of products with quantised operands.

Read `quant`, `weights` (int4 and int8 weights), `int8_activations`, `int8_convolution`, `mx` (microscaling formats),
and `qat` (fake quantisation for training).
"""
