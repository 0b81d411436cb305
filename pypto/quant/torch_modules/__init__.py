"""Calibration, deployment and training of torch modules. The folder is loaded only if torch is installed.

Read `structure` (arguments of modules as JSON and arrays), `linear` (linear layers and fake quantisation for
training), `attention` (int8 keys and values), `deployed` (layers on kernels) and `calibration`.
"""
