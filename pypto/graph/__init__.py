"""The Tensor graph: a compiler for functions on arrays, in stages.

The input is a numpy function with example arguments, the output an execution plan of kernels. Read the stages in order:
`ir` (the graph as data), `rewrite`, `loops` (a loop statement as one kernel), `exchange` (arrays of other libraries),
`capture` (what a function reads from outside), `tracing`, `schedule` (groups and tilings), `codegen` (kernels as
source), `plan`, then `tune`, `verification` and `views`. Each stage imports only those before it; `pipeline` lists
their passes. Above them stands what users call: `fused` with `fuse`, `lazy`, `vmap`, `cond` and
`step_loops`, and `importing`, for graphs of other front ends.
"""

from pypto.graph.ir.node import Graph, Node, text
from pypto.graph.ir.parser import parse_graph
from pypto.graph.ir.reference import evaluate
from pypto.graph.ir.types import TensorType
from pypto.graph.ir.verify import verify
from pypto.graph.plan.plan_text import parse_plan, plan_text
from pypto.graph.tracing.trace import Traced, trace

__all__ = [
    "Graph",
    "Node",
    "TensorType",
    "Traced",
    "evaluate",
    "parse_graph",
    "parse_plan",
    "plan_text",
    "text",
    "trace",
    "verify",
]
