"""LLVM IR as text: values, instructions and elementwise rules.

Read `value` (a named SSA value with dtype and width), `writer` (frames, hoisting, functions), `lane_emitter` (what the
rules of the op table are written against), `conversions`, `dot_products` (a table of instructions); then the peepholes
`bf16_rounding`, `exponent`, `division`.
"""
