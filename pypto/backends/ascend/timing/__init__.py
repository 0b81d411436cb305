"""Predicted time of a kernel: queues in order, events as edges, memory shared by all cores.

Read `prediction` (the entry), `core` (one core's queues), `costs` (cycles of an instruction), `rates` (constants),
`rows` (what a copy touches in memory), `accesses` (all cores' accesses), `l2` (what L2 has of them), `steady_state`
(loops that repeat), `card` (a prediction as HTML).
"""
