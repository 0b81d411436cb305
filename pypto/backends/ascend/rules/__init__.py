"""Elementwise ops on the vector unit: the rules of the op table on Ascend.

Read `lane_rules` (how a rule is run), `emitter` (the operations that rules are written against), `integers`,
`conversions`, `control`; `scalar_fallback` goes element by element; `double_float`, `fmod`, `softfloat64` and `bits`
build what the unit has no instruction for.
"""
