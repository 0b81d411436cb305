"""Rows of functions of real numbers, with the formulas that backends without such an instruction use.

Read `rows` (how a family is written), `term` and `pair` (arithmetic in formulas).
Families: `exp`, `log`, `power`, `trig`, `arc`, `hyper`, `erf`, `erf_tables`, `gamma`, `bessel`, `round`, `bits`. Beside them: `formats` (narrow floats), `soft` (arithmetic that a machine lacks),
and `reference` (what functions mean that numpy lacks).
"""
