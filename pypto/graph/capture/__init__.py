"""Capture: records a traced function's reads of attributes, globals, closures and numbers, which later calls repeat.

Each read is a row of a program (`guards`), which later calls run: arrays become inputs of the plan, everything else is
a guard. Read `reads` (the value that the function sees), `rebinding` (functions whose globals and closures are
recorded; clocks, random numbers and the environment), `parts` (attributes, items, arrays of other libraries),
`attributes` (classes whose attributes are recorded), `scalars` (numbers that differ from call to call), `proxies`
(containers, modules and `type`), `loop_statements` and `branch_statements` (statements that go to the trace before
Python runs them).
"""
