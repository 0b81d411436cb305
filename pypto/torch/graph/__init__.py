"""Launches in torch graphs: each is one operator, `torch.ops.pypto.launch`; imported only if torch is installed.

Read `operator` (the operator), `planning` (the facts that it gets about a launch), `names` (kernel names that hold in
other processes), `tracing` (launches that Dynamo traces) and `modes` (launches under a torch dispatch mode).

`derivatives` refuses second derivatives that no kernel computes.
"""
