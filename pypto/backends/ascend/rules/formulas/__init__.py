"""Formulas on the vector unit: functions from its exponential, logarithm and quotient, for `rules.kinds.ViaFormula`.

Read `unit` (what the unit has, and how a rule is made of a formula) first; then the families `exp`, `power`, `erf` and
`trig`. `rules.table` says which op takes which formula.
"""
