"""Loops inside of a loop's kernel, and the functions that it calls.

A variable that a loop assigns and that has a value before it becomes a variable of the kernel of one type. Its type is
that of its first value, until the body gives another one: then the loop is written anew with a type that holds both.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final

from pypto.graph.loops import functions
from pypto.graph.loops.arrays import View
from pypto.graph.loops.exits import with_exits
from pypto.graph.loops.expressions import Constant, Counted, Iteration, is_array
from pypto.graph.loops.masks import Masked
from pypto.graph.loops.numbers import Linear, NotCompiled, Number, joined, known
from pypto.graph.loops.products import matmul
from pypto.graph.loops.statements import Env, Exit, LoopState, Statements, variable
from pypto.graph.loops.stepping import iteration
from pypto.graph.loops.store import copied, store
from pypto.graph.loops.syntax import exposed, function_tree, live_after, stored_names, with_last_returns
from pypto.graph.loops.writer import Writer

MOST_CALLS: Final = 8  # inside each other
RETURNED: Final = "return"  # the name of a function's result among its variables


class Loops(Statements):
    """Writes the statements of a function, loops and calls included."""

    # --- loops -------------------------------------------------------------------------------------------------------

    def do_For(self, node: ast.For) -> None:
        if node.orelse:
            raise NotCompiled("`else` after a loop")
        items = self.eval(node.iter)
        if isinstance(items, Counted):
            self.counted_loop(node, items)
        elif isinstance(items, Iteration) or (is_array(items) and items.extents):
            row = iteration(self, items)
            self.counted_loop(node, Counted(known(0), row.size, 1), row.item)
        elif isinstance(items, tuple):
            if any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(node)):
                raise NotCompiled("`break` or `continue` in a loop over a tuple")
            for item in items:
                self.assign(node.target, item)
                self.run(node.body)
        else:
            raise NotCompiled(f"a loop over `{ast.unparse(node.iter)}`")

    def counted_loop(self, node: ast.For, steps: Counted, item: Callable[[Number], Any] | None = None) -> None:
        w, start, stop = self.w, steps.start, steps.stop
        low, high = (w.range_of(start)[0], w.range_of(stop)[1] - 1)
        if steps.step < 0:
            low, high = w.range_of(stop)[0] + 1, w.range_of(start)[1]

        def enter() -> None:
            if start.linear is not None and stop.linear is not None:
                span = start.linear.minus(stop.linear)
                w.refine((span if steps.step > 0 else span.times(-1)).plus(Linear({}, 1)))
            index = w.index(f"pto.cast({name}, pto.int64)", (low, high))
            self.assign(node.target, index if item is None else item(index))
            self.run(node.body)

        name = w.new("n")
        step = "" if steps.step == 1 else f", {steps.step}"
        header = f"for {name} in range({start.text}, {stop.text}{step}):"
        least = (
            w.range_of(stop)[0] - w.range_of(start)[1] if steps.step > 0 else w.range_of(start)[0] - w.range_of(stop)[1]
        )
        self.loop(node, header, enter, least > 0)

    def do_While(self, node: ast.While) -> None:
        if node.orelse or self.w.under:
            raise NotCompiled("`else` after a loop" if node.orelse else "a `while` loop in a part of a condition")
        go = self.w.variable("go", "pto.full((), True, pto.int1)")

        def enter() -> None:
            self.w.at(node)
            condition = self.truth(self.eval(node.test))
            self.w.line(f"{go} = {self.w.typed(condition, bool)}")
            self.open_exit()
            with self.w.block(f"if {go}:"):
                self.assume(node.test, True)
                self.run(node.body)
                if not self.is_dead:
                    self.open_exit()
            self.is_dead = True

        self.loop(node, f"while {go}:", enter, False)

    def loop(self, node: ast.For | ast.While, header: str, enter: Callable[[], None], runs: bool) -> None:
        """Write a loop; it is written anew until the types of its variables hold all values."""
        w = self.w
        names = [n for n in stored_names(node) if n in self.env]
        used = exposed(node)
        after = live_after(self.function, node)
        kinds: dict[str, Any] = {}
        buffers: dict[str, View] = {}
        self.env = {n: x for n, x in self.env.items() if not isinstance(x, Masked)}  # the loop may store to them
        names = [n for n in names if n in self.env]
        entry = {n: self.value_of(n, self.env[n]) for n in names}
        self.env.update(entry)
        before = dict(self.env)
        for _ in range(6):
            state = w.state()
            head = self.begin(entry, used, kinds, buffers)
            with w.block(header):
                self.loops.append(LoopState())
                enter()
                if not self.is_dead:
                    self.open_exit()
                ends = self.loops.pop().exits
            if self.settled(node, head, ends, entry, kinds, buffers, used):
                break
            w.restore(state)
            self.env, self.is_dead = dict(before), False
        else:
            raise NotCompiled("a variable whose type changes")
        self.is_dead = False
        self.end(before, head, ends, after, runs)

    def open_exit(self) -> None:
        self.loops[-1].exits.append(Exit(len(self.w.lines), self.w.depth, dict(self.env)))

    def begin(self, entry: Env, used: set[str], kinds: dict[str, Any], buffers: dict[str, View]) -> Env:
        """Write the variables of a loop with their first values, and return them."""
        head: Env = {}
        for name, value in entry.items():
            if isinstance(value, Number):
                kind = kinds.setdefault(name, value.kind)
                text = self.w.variable(name, self.w.typed(value, kind))
                head[name] = self.env[name] = variable(self.w, text, kind)
            elif name in buffers:
                head[name] = self.env[name] = copied(self.w, Unaliased(value))
            elif name not in used:
                self.env.pop(name)
        return head

    def settled(
        self, node: ast.For | ast.While, head: Env, ends: Sequence[Exit], entry: Env, kinds: dict[str, Any],
        buffers: dict[str, View], used: set[str],
    ) -> bool:  # fmt: skip
        """Whether the variables of a loop hold their values at all ends of an iteration; otherwise widen them."""
        is_settled = True
        for name, value in entry.items():
            for end in ends:
                value_at_end = end.env.get(name)
                if isinstance(value, Number):
                    kind = self.widened(name, value, kinds[name], value_at_end)
                    is_settled = is_settled and kind == kinds[name]
                    kinds[name] = kind
                elif name in used and value_at_end != head.get(name, value):
                    check_carried(node, name, value, value_at_end, self.w.stores)
                    is_settled = is_settled and name in buffers
                    buffers[name] = value
        return is_settled

    def widened(self, name: str, entry: Number, kind: Any, value_at_end: Any) -> Any:
        """Return the type of a loop's variable that also holds its value at the end of an iteration."""
        if not isinstance(value_at_end, Number):
            raise NotCompiled(f"`{name}` is a number or something else")
        return joined(Number("", kind, None, entry.value if kind is entry.kind else None), value_at_end)

    def end(self, before: Env, head: Env, ends: Sequence[Exit], after: set[str], runs: bool) -> None:
        """Write the new values of a loop's variables at the ends of its iterations, and bind the names after it."""
        self.env = {**before, **head}
        fresh = self.assigned_first(before, ends, after) if runs else {}
        numbers = {name: x for name, x in fresh.items() if isinstance(x, Number)}
        targets = {**head, **numbers}
        for end in reversed(ends):
            lines = []
            for name, target in targets.items():
                value = end.env[name]
                if isinstance(target, Number) and value != target:
                    lines.append((target.text, self.w.typed(value, target.kind)))
                elif isinstance(target, View) and value != target:
                    self.copy_back(end, target, value)
            self.insert(end.at, end.depth, parallel(self.w, lines))
        self.declare(numbers, ends)
        for name, value in before.items():
            if name not in head and isinstance(value, View) and any(end.env.get(name) != value for end in ends):
                self.env.pop(name)
                last = same_at(ends, name) if runs else None
                if isinstance(last, View) and is_fixed(last):
                    self.env[name] = last
        self.env.update(fresh)

    def assigned_first(self, before: Env, ends: Sequence[Exit], after: set[str]) -> Env:
        """Return the variables that a loop assigns first, and that have a value at all ends of an iteration."""
        fresh: Env = {}
        for name in [n for n in (ends[0].env if ends else {}) if n in after and n not in before]:
            values = [end.env.get(name) for end in ends]
            first = values[0]
            if isinstance(first, Number) and all(isinstance(x, Number) and x.kind == first.kind for x in values):
                fresh[name] = variable(self.w, self.w.new(name), first.kind)
            elif isinstance(first, View) and is_fixed(first) and same_at(ends, name) is not None:
                fresh[name] = first
        return fresh

    def declare(self, numbers: Env, ends: Sequence[Exit]) -> None:
        """Write first values for variables that only the loop assigns, before its first line."""
        at = next((n for n in range(min(x.at for x in ends) - 1, -1, -1) if is_header(self.w, n)), 0) if ends else 0
        lines = [f"{x.text} = {self.w.typed(known(0), x.kind)}" for x in numbers.values()]
        self.insert(at, self.w.depth, lines)

    def copy_back(self, end: Exit, target: View, value: Any) -> None:
        """Write a copy of an array to the memory of a loop's variable, at the end of an iteration."""
        with self.w.elsewhere() as lines:
            store(self.w, target, value)
        self.insert(end.at, end.depth, lines)

    # --- calls -------------------------------------------------------------------------------------------------------

    def attribute(self, x: Any, name: str) -> Any:
        return functions.attribute(self, x, name)

    def product(self, a: Any, b: Any) -> Any:
        return matmul(self, a, b)

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return functions.called(self, function, args, kwargs)

    def inline(self, function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        tree = function_tree(function)
        if tree is None or len(self.calls) > MOST_CALLS:
            raise NotCompiled(f"a call of `{function.__name__}`")
        tree = with_exits(tree)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        outer = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
        inner = Loops(self.w, bound(function, tree, args, kwargs), outer, self.enter, tree)
        inner.calls = [*self.calls, function]
        with self.w.function_of(function.__name__, function.__code__.co_filename):
            inner.run(with_last_returns(tree.body))
        return inner.env.get(RETURNED, Constant(None))

    # --- ends of iterations ------------------------------------------------------------------------------------------

    def do_Break(self, node: ast.Break) -> None:
        self.open_exit()
        self.w.line("break")
        self.is_dead = True

    def do_Continue(self, node: ast.Continue) -> None:
        self.open_exit()
        self.w.line("continue")
        self.is_dead = True

    def do_Return(self, node: ast.Return) -> None:
        if self.loops:
            raise NotCompiled("`return` in a loop")
        value = Constant(None) if node.value is None else self.eval(node.value)
        self.bind(RETURNED, value)


def is_header(w: Writer, number: int) -> bool:
    line = w.lines[number]
    return line.startswith("    " * w.depth + ("for ")) or line.startswith("    " * w.depth + "while ")


def parallel(w: Writer, rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return assignments that all read the values before them."""
    targets = {target for target, _ in rows}
    if not any(text != target and text in targets for target, text in rows):
        return [f"{target} = {text}" for target, text in rows]
    names = [w.new("v") for _ in rows]
    first = [f"{name} = {text}" for name, (_, text) in zip(names, rows, strict=True)]
    return first + [f"{target} = {name}" for name, (target, _) in zip(names, rows, strict=True)]


def is_fixed(view: View) -> bool:
    """Whether a view does not depend on the indices of loops."""
    return all(x.is_known for x in (*view.starts, *view.extents))


def check_carried(
    node: ast.For | ast.While, name: str, value: Any, last: Any, stores: Mapping[object, int]
) -> None:  # fmt: skip
    """Refuse an array variable whose arrays have other shapes, and one whose first array is updated.

    One that is replaced in a `for` loop is faster in kernels of its iterations, which run on all threads.

    Raises
    ------
    NotCompiled
    """
    are_views = isinstance(value, View) and isinstance(last, View)
    if not are_views or not is_fixed(value) or value.dtype != last.dtype:
        raise NotCompiled(f"`{name}` becomes another array in every iteration")
    if value.base.role != "scratch" and (isinstance(node, ast.For) or value.base.memory in stores):
        raise NotCompiled(f"`{name}` is an array of the function first, and another one later")


def same_at(ends: Sequence[Exit], name: str) -> Any:
    """Return what a variable is at all ends of an iteration, or None if it differs."""
    values = [end.env.get(name) for end in ends]
    return values[0] if values and all(x == values[0] for x in values) else None


class Unaliased:
    """An array whose copy is wanted."""

    def __init__(self, source: Any) -> None:
        self.extents, self.dtype = source.extents, source.dtype
        self.element, self.leaves = source.element, source.leaves


def bound(function: FunctionType, tree: ast.FunctionDef, args: list[Any], kwargs: dict[str, Any]) -> Env:
    """Bind the arguments of a call to the parameters of a function."""
    names = [x.arg for x in tree.args.args]
    if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs or tree.args.posonlyargs or len(args) > len(names):
        raise NotCompiled(f"the arguments of `{function.__name__}`")
    defaults = function.__defaults__ or ()
    env: Env = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    env.update(zip(names, args, strict=False))
    env.update(kwargs)
    if set(env) != set(names):
        raise NotCompiled(f"the arguments of `{function.__name__}`")
    return env
