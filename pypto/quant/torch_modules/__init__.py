"""Modules of torch are calibrated, deployed and trained here. The folder is loaded only where torch is.

Read `structure` (arguments of modules as JSON and arrays), `linear` (linear layers and fake quantisation for
training), `attention` (int8 keys and values), `deployed` (layers on kernels) and `calibration`.
"""
