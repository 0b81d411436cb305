"""Elementwise ops on the vector and the scalar unit: the rules of the op table on Ascend.

Read `lane_rules` (how a rule is run), `emitter` (the operations that rules are written against), `operand` (lanes in
the unified buffer), `temporaries` (memory for the instructions of one op), `integers`, `conversions`, `control`;
`scalars` runs a rule on one number, and `scalar_fallback` element by element; `double_float`, `fmod` and `bits` build
what the unit has no instruction for.
"""
