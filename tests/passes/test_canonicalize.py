"""Text of the canonical form, and every algebraic rule against the rows' numpy meaning, bit by bit."""

from pathlib import Path

import numpy as np
import pytest

from pypto.ir.core import make_op
from pypto.ir.types import ALL_DTYPES, DTYPE_BY_NAME, TileType
from pypto.ops.table import TABLE
from pypto.passes.canonicalize import canonicalize
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.pattern import Apply, Variable
from pypto.passes.rules.algebra import RULES
from pypto.passes.rules.shapes import exact


def clean(function):
    """Canonicalize without what became unused, which is for `dce` to show."""
    for step in (cse, canonicalize, cse, dce):
        function = step(function)
    return function


def read_cases():
    """Sections of canonicalize.txt: `== name`, the ops before, `->`, the ops after."""
    sections = (Path(__file__).parent / "canonicalize.txt").read_text().split("== ")[1:]
    return {name: text.split("->") for name, _, text in (section.partition("\n") for section in sections)}


CASES = read_cases()


@pytest.mark.parametrize("case", CASES)
def test_text(becomes, case):
    # The last value is printed, so that it is used.
    becomes(clean, *(f'{text} print_ %{top_level(text)[-1]} {{hex = false, prefix = ""}}' for text in CASES[case]))


def top_level(text):
    """Names of the values that ops outside of any region define."""
    names, depth = [], 0
    for word in text.replace("{", " { ").replace("}", " } ").split():
        depth += (word == "{") - (word == "}")
        if depth == 0 and word.endswith(":"):
            names.append(word[1:-1])
    return names


def test_nothing_to_do_is_nothing_done(becomes):
    text = """
        %1: i32 = add %n, %m
        %2: i1 = lt %1, %n
        %p: ptr<f32> = array_ptr %x
        store %p, %f
        if %2 {
          store %p, %g
          yield
        } {
          yield
        }
    """
    becomes(canonicalize, text, text)


SAMPLES = {
    "bool": [False, True],
    "int": [-(2**31), -7, -1, 0, 1, 2, 31, 2**31 - 1],
    "uint": [0, 1, 2, 31, 2**31, 2**32 - 1],
    "float": [-np.inf, -1.5, -1.0, -0.0, 0.0, 1.0, 1e-40, 3.0, 3e38, np.inf, np.nan],
}
DTYPES = {"bool": "i1", "int": "i32", "uint": "u32", "float": "f32"}


def variables(term):
    return (
        [term]
        if isinstance(term, Variable)
        else [v for t in term.args for v in variables(t)]
        if isinstance(term, Apply)
        else []
    )


def grid(rule, kind):
    """All combinations of sample values for the variables of a rule."""
    names = {}
    for v in variables(rule.old):
        names[v.name] = sorted(v.kinds)[0] if v.kinds else kind
    if rule.old.op == "where":
        names.update({v.name: "bool" for v in variables(rule.old.args[0])})
    values = np.meshgrid(*(np.array(SAMPLES[k], DTYPE_BY_NAME[DTYPES[k]].numpy) for k in names.values()), indexing="ij")
    return {name: v.ravel() for name, v in zip(names, values, strict=True)}


def evaluate(term, env, like):
    """A term by the meanings of the rows; a number has the dtype of its neighbours, or else of the result."""
    if isinstance(term, Variable):
        return env[term.name]
    if not isinstance(term, Apply):
        return np.full(like.shape, term, like.dtype)
    known = [evaluate(t, env, like) for t in term.args if isinstance(t, Variable | Apply)]
    near = np.zeros(known[0].shape, bool) if term.op == "where" and len(known) < 2 else known[-1]
    args = [
        evaluate(t, env, near) if not (term.op == "where" and n == 0) else evaluate(t, env, np.zeros(near.shape, bool))
        for n, t in enumerate(term.args)
    ]
    row = TABLE[term.op]
    attrs = {p.name: p.default for p in row.params if not p.is_operand}
    types = [TileType(a.shape, next(d for d in DTYPE_BY_NAME.values() if d.numpy == a.dtype)) for a in args]
    (result,) = row.infer(types, attrs)
    return np.asarray(row.reference(make_op(term.op, (), attrs, (result,)), *args)).astype(result.dtype.numpy)


CHECKED = [(rule, kind) for rule in RULES if rule.old.op != "addptr" for kind in sorted(rule.kinds - {"ptr"})]


@pytest.mark.parametrize(("rule", "kind"), CHECKED, ids=lambda x: x if isinstance(x, str) else "rule")
def test_every_rule_is_exact(rule, kind):
    env = grid(rule, kind)
    old = evaluate(rule.old, env, np.zeros(1))
    new = np.broadcast_to(evaluate(rule.new, env, old), old.shape)
    assert old.dtype == new.dtype
    np.testing.assert_array_equal(old, new)
    if old.dtype.kind == "f":
        numbers = ~np.isnan(old)
        np.testing.assert_array_equal(np.signbit(old[numbers]), np.signbit(new[numbers]))


@pytest.mark.parametrize("source", [d for d in ALL_DTYPES if d.bits <= 16 and d.kind != "bits"], ids=str)
@pytest.mark.parametrize("target", [d for d in ALL_DTYPES if d.kind != "bits"], ids=str)
def test_exact_means_that_every_value_survives(source, target):
    bits = np.arange(2 ** max(source.bits, 1), dtype=np.uint16 if source.bits == 16 else np.uint8)
    values = bits.astype(bool) if source.is_bool else bits.view(source.numpy)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        back = values.astype(target.numpy).astype(np.float64)
    same = (back == wide) | (np.isnan(wide) & np.isnan(back))
    assert exact(source, target) == bool(np.all(same)) or (target.is_bool and not exact(source, target))
