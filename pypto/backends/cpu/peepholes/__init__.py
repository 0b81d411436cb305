"""Instructions of x86 in place of several of LLVM's: peepholes, and the emitter that chooses them.

Read `lane_emitter` (which of them a value takes), then `division`, `exponent`, `bf16_rounding`, and `dot_products` (a
table of instructions for narrow numbers).
"""
