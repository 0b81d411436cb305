"""Exchange with other array libraries: their arrays enter a call without a copy, and results leave as arrays of theirs.

Read `libraries`, `tensors` (torch), `dlpack` (all others), and `call` (the arguments of one call).
"""
