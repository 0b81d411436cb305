"""Code generation: Ascend C of a kernel from its Block IR.

Read `ascendc` (the kernel), `cxx` (expressions), `calls` (one instruction), `text`.
"""
