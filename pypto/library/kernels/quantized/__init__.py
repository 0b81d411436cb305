"""Kernels that quantise (`quant`), and quantised products and convolutions: `weights`, `int8_convolution`, `mx`."""
