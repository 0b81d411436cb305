"""Predicted time of a kernel: queues in order, events as edges, memory shared by all cores.

Read `prediction` (the entry), `core` (one core's queues), `costs` (cycles of an instruction), `steady_state` (loops
that repeat), `card` (a prediction as HTML).
"""
