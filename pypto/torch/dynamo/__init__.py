"""The backend `pypto` of torch.compile: graphs of core ATen become plans of kernels.

Dynamo captures a model, and AOTAutograd gives graphs of functional ATen ops, forward and backward. `lowering` runs the
rows of `pypto.torch.aten` over such a graph, which gives a Tensor graph, and `pypto.graph` makes the plan. An op
without a row runs in torch as a step of the plan; `report` counts these.

Read `backend` (the entry point) with `settings`, `lowering`, `sizes` (torch's symbolic sizes as named dimensions),
`steps` (ops that torch runs), `memory` (tensors as arrays), `versions` (plans by the form of the arguments), and
`compiled` (what a call does).
"""
