"""Block IR: what one Ascend core does, as instructions on buffers.

A buffer has a memory, a layout and later an address; an instruction has a unit; events order the units. Read `ir`,
`instructions` (one row each), `effects` (what an instruction reads and writes), `layouts`, `affine` (index
expressions), `conditions`, `evaluation` (numbers that are known), `rewrite`; `printer` and `parser` are its text;
`softfloat64` has the functions that expressions may call, `reserved` the words that no name may be.
"""
