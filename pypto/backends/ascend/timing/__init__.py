"""Predicted time of a kernel: queues in order, events as edges, memory shared by all cores.

Read `prediction` (the entry), `core` (one core's queues), `costs` (cycles of an instruction), `unit_times` (unit flags
of L0C), `rates` (constants), `rows` (what a copy touches in memory), `accesses` (all cores' accesses), `l2` (which of
them hit L2), `steady_state` (loops that repeat), `card` (a prediction as HTML).
"""
