"""Launches in graphs of torch: each is one operator, `torch.ops.pypto.launch`. Loaded beside torch only.

Read `operator` (what the operator does), `planning` (what it is told of a launch), `names` (how it finds the kernel,
also in another process), `tracing` (launches that Dynamo traces) and `modes` (launches while torch's dispatcher has a
mode).

`derivatives` refuses second derivatives that no kernel computes.
"""
