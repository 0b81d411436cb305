"""Instruction selection for elementwise ops: the rules of the op table on the vector and the scalar unit.

Input is one op with its operands as chunks in UB, output are instructions of Block IR. Read `kinds` (the forms of a
rule), `formulas` (functions of the unit's exponential and logarithm), `table` (the rule of each op), `lane_rules`
(which rule an op takes in a case), `emitter` (the operations that rules are written against), `operand` (a chunk in
UB), `temporaries` (register allocation for one op, with buffers as registers), `integers`, `packed_bytes`,
`conversions` and `control`. `scalars` runs a rule on one number, and `scalar_fallback` element by element.
`double_float`, `fmod` and `bits` make what it lacks.
"""
