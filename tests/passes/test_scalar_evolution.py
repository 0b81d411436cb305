"""How scalars change from program to program and from turn to turn of a loop."""

import pytest

from pypto.ops.memory import Access
from pypto.passes.analysis.scalar_evolution import Evolution, ScalarEvolution, affine_of, constant_step

LOOP = """
    %lo: i64 = constant {value = 0} %hi: i64 = constant {value = 64} %four: i64 = constant {value = 4}
    %p: ptr<f32> = array_ptr %x
    %i: i32 = program_id {axis = 0}
    %three: i32 = constant {value = 3}
    %s: i32 = mul %i, %three
    %o: i32 = mul %i, %n
    %w: i32 = add %o, %m
    %sq: i32 = mul %i, %i
    %q: i32 = floordiv %i, %n
    %e: ptr<f32> = addptr %p, %o
    %r: ptr<f32>, %z: i64 = for %lo, %hi, %four, %e, %k { (%j: i64, %at: ptr<f32>, %yy: i64)
      %two: i64 = constant {value = 2}
      %d: i64 = mul %j, %two
      %gg: i64 = sub %k, %j
      %on: ptr<f32> = addptr %at, %m
      %v: f32 = load %on
      %t: i64 = mul %yy, %two
      yield %on, %t
    }
"""


@pytest.fixture
def steps(make_kernel):
    """The loop, its function, and a function from a value's name to its step over an axis."""
    function = make_kernel(LOOP)
    loop = next(op for op in function.walk() if op.name == "for")
    named = {v.hint: v for op in function.walk() for v in op.results}
    named.update((v.hint, v) for v in (*function.args, *loop.regions[0].args))
    evolution = ScalarEvolution.of(function)

    def step(name, axis):
        found = evolution.step(named[name], loop if axis == "loop" else axis)
        return None if found is None else {"*".join(v.hint for v in factors): n for factors, n in found.items()}

    return function, named, evolution, step


@pytest.mark.parametrize(("name", "axis", "step"), [
    ("i", 0, {"": 1}), ("i", 1, {}), ("n", 0, {}), ("s", 0, {"": 3}), ("o", 0, {"n": 1}), ("w", 0, {"n": 1}),
    ("sq", 0, None), ("q", 0, None), ("q", 1, {}), ("e", 0, {"n": 1}),
    ("j", "loop", {"": 4}), ("d", "loop", {"": 8}), ("gg", "loop", {"": -4}), ("i", "loop", {}),
    ("at", "loop", {"m": 1}), ("on", "loop", {"m": 1}), ("yy", "loop", None), ("t", "loop", None), ("v", "loop", None),
    ("j", 0, {}), ("at", 0, {"n": 1}), ("on", 0, {"n": 1}), ("r", 0, None),
])  # fmt: skip
def test_step(name, axis, step, steps):
    assert steps[3](name, axis) == step


def test_evolution_over_all_axes(steps):
    _, named, evolution, _ = steps
    loop = named["r"].op
    assert evolution.evolution(named["on"]) == Evolution(named["on"], {0: {(named["n"],): 1}, loop: {(named["m"],): 1}})
    assert evolution.evolution(named["q"]) is None


def test_what_depends_on_the_program(steps):
    _, named, evolution, _ = steps
    asked = {name: evolution.depends_on_program(named[name]) for name in ("n", "i", "q", "j", "on", "v")}
    assert asked == {"n": False, "i": True, "q": True, "j": False, "on": True, "v": True}
    assert not evolution.depends_on_program(named["q"], axes=(1, 2))


def test_narrow_sums_may_wrap_around(make_kernel):
    function = make_kernel("%i: i32 = program_id {axis = 0} %s: i32 = add %i, %n %w: i64 = cast %s {dtype = i64}")
    wide = function.body.ops[2].result
    assert constant_step(ScalarEvolution.of(function).step(wide, 0)) == 1
    assert ScalarEvolution.of(function, exact=True).step(wide, 0) is None


@pytest.mark.parametrize(("axis", "stays"), [(0, False), (1, True)])
def test_a_branch_that_asks_for_the_program(axis, stays, make_kernel):
    function = make_kernel("%r: i32 = if %b { %i: i32 = program_id {axis = 0} yield %i } { yield %n }")
    assert ScalarEvolution.of(function).is_invariant(function.body.ops[0].result, axis) == stays


def test_a_load_is_taken_to_stay_only_where_that_is_asked_for(make_kernel):
    function = make_kernel("%p: ptr<f32> = array_ptr %x %v: f32 = load %p")
    load = function.body.ops[1].result
    assert ScalarEvolution.of(function).step(load, 0) is None
    assert ScalarEvolution(memory_is_invariant=True).step(load, 0) == {}


def test_step_of_an_address(make_kernel):
    function = make_kernel("""
        %p: ptr<f32> = array_ptr %x
        %i: i32 = program_id {axis = 0} %wide: i64 = cast %i {dtype = i64}
        %eight: i64 = constant {value = 8} %o: i64 = mul %wide, %eight
        %v: tile<8xf32> = tile_load %p, %o, %k, %k {masked = false, shape = [8]}
    """)
    load = function.body.ops[-2]
    step = ScalarEvolution.of(function).address_step(Access.of(load), 0)
    assert step == {(load.operands[2],): 8}


def test_forms_of_two_offsets_are_compared(make_kernel):
    function = make_kernel("""
        %one: i64 = constant {value = 1} %three: i64 = constant {value = 3}
        %a: i64 = add %k, %three
        %t: i64 = mul %a, %three
        %u3: i64 = mul %k, %three
        %d: i64 = sub %t, %one
    """)
    t, u, d = (op.result for op in function.body.ops[3:6])
    assert (affine_of(t) - affine_of(u)).number == 9
    assert not (affine_of(d) - affine_of(u)).terms
    assert (affine_of(d) - affine_of(t)).number == -1


def test_carried_values_may_be_left_out(steps):
    function, named, _, _ = steps
    evolution = ScalarEvolution.of(function, through_carried=False)
    assert evolution.step(named["at"], named["r"].op) is None
    assert evolution.step(named["at"], 0) is None
    assert evolution.step(named["j"], named["r"].op) == {(): 4}
