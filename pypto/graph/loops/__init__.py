"""Loops of traced functions: a loop statement and the types of its variables become the source of one kernel.

In comes the syntax tree of a `for` or `while` statement with what its names stand for at that point of the trace. Out
comes a `LoopKernel`: a kernel in the kernel language for one program, whose scalars are scalars, whose statements on
arrays are loops over strips, and whose state lies in the arrays of its arguments. A statement that has no such kernel
raises `NotCompiled` with the reason, and Python runs the loop, which unrolls it.

Read `syntax` (the tree), `exits` (`return` in loops), `numbers` (scalars and bounds), `promotion` (numpy's types),
`writer`, `arrays` (views), `indexing`, `store`, `masks`, `expressions`, `stepping` (what loops run over), `products`,
`functions` (numpy's functions), `statements` (assignments and branches), `flow` (loops and calls) and `translate`.
"""
