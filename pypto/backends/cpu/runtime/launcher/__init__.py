"""Native launches: the code that ``kernel[grid](…)`` calls, with a table of compiled versions and their guards.

Python's own path (`pypto.runtime.launch`) is the reference. It makes the first launch of every kind, and records
through `Table.teach` when its choice holds again. Arguments that native code does not know go to Python.
Read `recipe` (the steps of a guard), `direct` (those of launches by generated code), `native` (the table and its code),
`replay` (the launches of a plan), `tensors` (the layout of torch's tensors).
"""
