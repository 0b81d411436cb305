"""Tools that show what the compiler made of a kernel, and compare what kernels compute.

Read `explain`, `levels` and `passes` (the IR on its way down), `inspection`, `line_facts` and `page` (a kernel by its
lines). Runs: `interpret`, `checked`, `watching`, `printed`, `verify`, `simulate`. Diagnostics: `codes`, `advice`.
Notebooks: `cards`.
"""
