"""Calibration observes the inputs of each layer on example data, so that quantisation errors stay small on such data.

Read `observers` (statistics of inputs), `quantize` (one layer from its statistics), `blocks` (all layers, block by
block) and `begin` (`pypto.quant.calibrate`).
"""
