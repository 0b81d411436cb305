"""Tracing: a numpy function runs on tensors, which record it as a graph.

Comes in: a function and example arguments (`arguments`, `named_dims`). Goes out: a `Traced` graph. Read `trace`,
`tensor`, then the functions by kind: `dispatch`, `ufuncs`, `ufunc_decompositions`, `functions`,
`decompositions`, `standard`, `methods`, `movement`, `indexing`, `boolean_indexing`, `reductions`, `ordering`,
`products`, `launches`, `loops`, `complex_numbers`; `creation` and `concrete` are for arrays that the function
makes, `numerical` for compositions, `numpy_steps` for functions that numpy runs, `values` for conditions on values.
"""
