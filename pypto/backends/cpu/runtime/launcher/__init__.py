"""Launches in native code: what Python calls for ``kernel[grid](…)``, with a table of compiled versions to choose from.

Python's own path (`pypto.runtime.launch`) stays the reference: it makes the first launch of every kind and writes
down, through `Table.teach`, when its answer may be used again. Whatever native code is not told about goes to Python.
Read `recipe` (the steps that are taught), `native` (the table and its code), `tensors` (what torch's tensors need).
"""
