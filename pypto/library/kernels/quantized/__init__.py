"""Kernels that quantise (`quant`), and products of what is quantised: `weights`, `int8_convolution`, `mx`."""
