"""A backend of pypto as a package of its own: kernels as portable C.

In: optimised Tile IR. Out: a shared library that the system's C compiler makes.
Read in this order: `plugin` (how it is found), `backend` (what pypto calls), `lower` (Tile IR to C), `emitter` (the
arithmetic of lane rules).
"""
