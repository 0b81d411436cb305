"""Operators of torch, with all that its transformations need: schema, fake, autograd, vmap, DTensor.

Read `definition` (what torch is told, and where it is registered), `recording` (autograd), `batching` (vmap),
`sharding` (DTensor) and `calls` (from rows and functions of kernels to their operators).
"""
