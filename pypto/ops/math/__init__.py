"""Rows of functions of real numbers, with the formulas that backends without such an instruction use.

Read `rows` (how a family is written), `term` and `pair` (arithmetic in formulas), `unit` (formulas for a vector unit).
Families: `exp`, `log`, `power`, `power_unit`, `trig`, `trig_unit`, `arc`, `hyper`, `erf`, `erf_unit`, `erf_tables`,
`gamma`, `bessel`, `round`, `bits`. Beside them: `formats` (narrow floats), `soft` (arithmetic that a machine lacks),
and `reference` (what functions mean that numpy lacks).
"""
