"""Operators of torch with all that its transformations need: schema, fake, autograd, vmap, DTensor.

Read `definition` (what torch is told, and where it is registered), `recording` (autograd), `batching` (vmap) and
`calls` (from rows of `pypto.library` to their operators).
"""
