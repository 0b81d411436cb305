"""Facts about ops stand in their rows: a backend that lists ops by name does not know of the next one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pypto.graph.ir.node_table import NODES, NodeRow
from pypto.ops.table import TABLE
from tests.house.measure import ROOT, python_files, relative, syntax

MANY = 3  # names of ops in one literal

# Literals that stay, by file and first name, with the reason. Tables from an op to the code for it are no facts.
_INSTRUCTIONS = "a table from ops to instructions of the target"
_HANDLERS = "a table from ops to functions"
ALLOWED: dict[tuple[str, str], str] = {
    ("ascend/rules/emitter.py", "eq"): _INSTRUCTIONS,
    ("ascend/rules/emitter.py", "add"): _INSTRUCTIONS,
    ("ascend/rules/emitter.py", "floor"): _INSTRUCTIONS,
    ("ascend/rules/table.py", "add"): "the rules of ops on the vector unit: an op that is not there runs its lane rule",
    ("ascend/rules/scalars.py", "eq"): _INSTRUCTIONS,
    ("ascend/rules/scalars.py", "trunc"): _INSTRUCTIONS,
    ("ascend/tile/coarsening.py", "cast"): "the ops that the pass has a case for",
    ("ascend/tile/coarsening.py", "constant"): "the ops that the pass has a case for",
    ("ascend/tile/core_partition.py", "constant"): "what begins or carries a sum of products",
    ("ascend/tile/core_partition.py", "tile_load"): "what the cube core can do",
    ("ascend/tile/cube_regions.py", "permute"): "what the cube core can do",
    ("ascend/tile/cube_regions.py", "dot"): "what begins or carries a sum of products",
    ("ascend/vector/handlers/atomics.py", "add"): "kinds of atomic ops",
    ("ascend/vector/broadcast_operands.py", "add"): _INSTRUCTIONS,
    ("ascend/vector/lower.py", "program_id"): _HANDLERS,
    ("ascend/vector/folding.py", "sum"): _INSTRUCTIONS,
    ("ascend/vector/handlers/reduce.py", "sum"): _INSTRUCTIONS,
    ("cpu/codegen/function.py", "array_ptr"): "a table from ops to slots of the ABI",
    ("cpu/codegen/function.py", "if"): _HANDLERS,
    ("cpu/instrument/bounds.py", "tile_load"): "the ops that the pass has a case for",
    ("llvm/lane_emitter.py", "eq"): _INSTRUCTIONS,
    ("llvm/lane_emitter.py", "floor"): _INSTRUCTIONS,
    ("llvm/lane_emitter.py", "add"): _INSTRUCTIONS,
}


def elements(node: ast.AST) -> list[ast.expr | None]:
    if isinstance(node, ast.Dict):
        return list(node.keys)
    return list(node.elts) if isinstance(node, ast.Set | ast.List | ast.Tuple) else []


def names_in(node: ast.AST) -> list[str]:
    """The names of ops among the elements of a literal."""
    texts = (e.value for e in elements(node) if isinstance(e, ast.Constant))
    return [text for text in texts if isinstance(text, str) and text in TABLE]


def lists_of_ops() -> Iterator[tuple[str, str]]:
    for path in python_files("pypto/backends"):
        for node in ast.walk(syntax(path)):
            names = names_in(node)
            if len(names) >= MANY:
                yield relative(path).removeprefix("pypto/backends/"), names[0]


def test_no_backend_lists_ops_by_name() -> None:
    assert set(lists_of_ops()) == ALLOWED.keys()


def test_what_is_asked_of_a_row_is_a_trait_of_some_row() -> None:
    text = (ROOT / "pypto/ops/row.py").read_text(encoding="utf-8")
    traits = {trait for row in TABLE.values() for trait in row.traits}
    assert [trait for trait in sorted(traits) if f"``{trait}``" not in text] == []
    own = {trait for row in NODES.values() for trait in row.traits}
    assert [trait for trait in sorted(own) if f"``{trait}`` (" not in (NodeRow.__doc__ or "")] == []


# Names of ops that a room compares with the op of a node or of Tile IR. A number may only fall: ask a trait or a fact.
COMPARED = {
    "backends": 2,
    "backends/ascend": 188,
    "backends/cpu": 104,
    "debug": 3,
    "frontend": 34,
    "gradients": 7,
    "graph": 31,
    "ops": 3,
    "passes": 253,
}


def names_compared(node: ast.AST) -> int:
    """How many names of ops a comparison or `match` with `op`, `….op` or `op.name` has."""
    if isinstance(node, ast.Match):
        sides = [
            node.subject,
            *(e.value for case in node.cases for e in ast.walk(case.pattern) if isinstance(e, ast.MatchValue)),
        ]
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    else:
        return 0
    if not any(ast.unparse(side).rpartition(".")[2] == "op" or ast.unparse(side).endswith("op.name") for side in sides):
        return 0
    texts = [e.value for side in sides for e in (side, *elements(side)) if isinstance(e, ast.Constant)]
    return sum(1 for text in texts if isinstance(text, str) and (text in TABLE or text in NODES))


def test_no_room_compares_more_names_of_ops_than_it_did() -> None:
    found: dict[str, int] = {}
    for path in python_files("pypto"):
        room = relative(path).removeprefix("pypto/").rpartition("/")[0].split("/")
        name = "/".join(room[:2] if room[0] == "backends" else room[:1]) or "pypto"
        found[name] = found.get(name, 0) + sum(map(names_compared, ast.walk(syntax(path))))
    assert {room: count for room, count in found.items() if count > COMPARED.get(room, 0)} == {}
