"""The Tensor graph: a function on arrays, as data.

Comes in: a function of numpy, and example arguments. Read `trace` (what the function's arrays are), `node`, `rules`
(ops of the table on arrays), `meaning` (what a graph means), `printer`.
"""

from pypto.graph.meaning import evaluate
from pypto.graph.node import Graph, Node
from pypto.graph.parser import parse_graph
from pypto.graph.plan_text import parse_plan, plan_text
from pypto.graph.printer import text
from pypto.graph.trace import Traced, trace
from pypto.graph.types import TensorType
from pypto.graph.verify import verify

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
