"""What a traced function reads besides the arrays that it is given: attributes, globals, closures, numbers.

Each read is a row of a program (`rows`), which later calls run: arrays become inputs of the plan, everything else is a
guard. Read `reads` (what a value becomes while a function is traced), `rebinding` (functions whose globals and closures
are seen), `attributes` (classes whose attributes are seen), `scalars` (numbers that differ from call to call),
`ambient` (clocks, random numbers and the environment). Kinds of values: `kinds` and `stand_ins`; names in code:
`code_names`.
"""
