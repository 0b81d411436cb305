"""The autotuner chooses a right configuration and leaves arrays as one launch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from pypto.tuning import Autotuner, Config, autotune, heuristics


def bump(x: Any, n: Any, BLOCK: pto.constexpr, SCALE: pto.constexpr = 1) -> None:
    pto.static_assert(BLOCK != 13, "an unlucky size")
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(x + i, pto.load(x + i, mask=i < n) * 2 + SCALE, mask=i < n)


def tuner(*configs: Config, **options: Any) -> Autotuner:
    return autotune(list(configs), key=["n"], **options)(pto.jit(bump))


def launch(kernel: Any, x: Any, **more: Any) -> None:
    kernel[lambda meta: (-(-len(x) // meta["BLOCK"]),)](x, len(x), **more)


def ones(n: int) -> Any:
    return np.ones(n, np.float32)


def test_every_launch_is_one_run() -> None:
    kernel, x = tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32})), ones(40)
    for expected in (3, 7, 15):
        launch(kernel, x)
        np.testing.assert_array_equal(x, expected)
    assert len(kernel.cache) == 1


def test_each_key_is_tuned_anew() -> None:
    kernel = tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32}))
    for x in (ones(10), ones(20), ones(20), np.ones(20, np.float64)):
        launch(kernel, x)
    assert len(kernel.cache) == 3


def test_one_configuration_is_not_measured() -> None:
    kernel, x = tuner(Config({"BLOCK": 16})), ones(20)
    launch(kernel, x)
    np.testing.assert_array_equal(x, 3)
    assert not kernel.configs_timings


def test_configurations_that_do_not_compile_are_left_out() -> None:
    kernel, x = tuner(Config({"BLOCK": 13}), Config({"BLOCK": 16})), ones(20)
    launch(kernel, x)
    np.testing.assert_array_equal(x, 3)
    assert kernel.best_config is not None
    assert kernel.best_config.kwargs == {"BLOCK": 16}


def test_where_none_compiles_the_first_error_is_raised() -> None:
    kernel = tuner(Config({"BLOCK": 13}), Config({"BLOCK": 13, "SCALE": 2}))
    with pytest.raises(Diagnostic, match="an unlucky size"):
        launch(kernel, ones(20))


def test_hooks_pruning_and_own_measurement() -> None:
    seen: list[str] = []

    def measure(call: Any, quantiles: Any) -> list[float]:
        call()
        seen.append("measured")
        return [1.0 if len(seen) > 4 else 2.0] * 3

    kernel = tuner(
        Config({"BLOCK": 8}), Config({"BLOCK": 16}, pre_hook=lambda named: seen.append(f"before {named['BLOCK']}")),
        Config({"BLOCK": 32}), Config({"BLOCK": 64}),
        prune_configs_by={
            "early_config_prune": lambda configs, named, **_: [c for c in configs if c.kwargs["BLOCK"] > 8],
            "perf_model": lambda BLOCK, **_: BLOCK, "top_k": 2,
        },
        post_hook=lambda named, exception: seen.append("after"), do_bench=measure,
    )  # fmt: skip
    x = ones(20)
    launch(kernel, x)
    assert seen == ["before 16", "after", "measured", "after", "measured"]
    assert kernel.best_config is not None
    assert kernel.best_config.kwargs == {"BLOCK": 32}
    np.testing.assert_array_equal(x, 3)


def test_reset_to_zero_and_restore_value() -> None:
    kernel, x = tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32}), reset_to_zero=["x"]), ones(20)
    launch(kernel, x)
    np.testing.assert_array_equal(x, 1)
    kernel, x = tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32}), restore_value=["x"]), ones(20)
    launch(kernel, x)
    np.testing.assert_array_equal(x, 3)


def test_a_constant_is_given_or_tuned() -> None:
    kernel = tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32}))
    with pytest.raises(ValueError, match="BLOCK given in the launch and tuned as well"):
        kernel[(1,)](ones(20), 20, BLOCK=16)


def test_heuristics_above_and_below_tuning() -> None:
    rules = {"SCALE": lambda args: 5 if args["n"] > 10 else 1}
    for kernel in (
        heuristics(rules)(tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32}))),
        autotune([Config({"BLOCK": 16}), Config({"BLOCK": 32})], key=["n"])(heuristics(rules)(pto.jit(bump))),
    ):
        x = ones(20)
        launch(kernel, x)
        np.testing.assert_array_equal(x, 7)


def test_configurations_compare() -> None:
    a, b = Config({"BLOCK": 16}, num_warps=4), Config({"BLOCK": 16}, num_warps=4)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Config({"BLOCK": 16}, num_warps=8)
    assert str(a) == "BLOCK: 16, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None"
    assert a.all_kwargs() == {"BLOCK": 16, "num_warps": 4, "num_ctas": 1, "num_stages": 3}


def test_warming_up_compiles_them_all() -> None:
    kernel = tuner(Config({"BLOCK": 16}), Config({"BLOCK": 32}))
    assert len(kernel.warmup(pto.float32, 20)) == 2


def test_tune_searches_anew_and_leaves_arrays_as_they_are() -> None:
    @pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})], key=["x"])
    @pto.jit
    def bump(x, BLOCK: pto.constexpr):
        i = pto.program_id(0) * BLOCK
        x[i : i + BLOCK] += 1

    x = np.zeros(16, np.float32)
    for _ in range(2):
        report = bump.tune(x, grid=lambda meta: (16 // meta["BLOCK"],))
        assert sorted(row.status for row in report.sections[-1].rows) == ["ok", "ok"]
        assert not x.any()
    bump[lambda meta: (16 // meta["BLOCK"],)](x)
    assert (x == 1).all()


def test_inspect_shows_what_was_chosen() -> None:
    @pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})], key=["x"], cache_results=False)
    @pto.jit
    def fill(x, BLOCK: pto.constexpr):
        i = pto.program_id(0) * BLOCK
        x[i : i + BLOCK] = 1.0

    x = np.zeros(16, np.float32)
    with pytest.raises(pto.errors.PyptoError, match="launch it first"):
        fill.inspect(x)
    fill[lambda meta: (16 // meta["BLOCK"],)](x)
    assert fill.best_config is not None
    assert f"BLOCK: {fill.best_config.kwargs['BLOCK']}" in fill.inspect(x).version


def multiply(a: Any, b: Any, c: Any) -> None:
    acc = pto.zeros((48, 64), pto.float32)
    for k in range(0, a.shape[1], 16):
        acc = pto.dot(a[:, k : k + 16], b[k : k + 16, :], acc)
    c[:, :] = acc


def scaled(x: Any, y: Any, n: Any, BLOCK: pto.constexpr) -> None:
    i = pto.arange(0, BLOCK)
    t = pto.load(x + i, mask=i < n, other=0.0)
    e = t * 3 + pto.max(t)
    pto.store(y + i, e, mask=i < n)


@pytest.mark.parametrize(
    ("option", "choices"),
    [
        ("disable", [(), ["peeling", "trip_count"]]),
        ("num_threads", [1, 2]),
        ("fast_math", [False, True]),
        ("level", ["x86-64-v2", "no such level"]),
    ],
)
def test_options_of_a_kernel_are_tried(option: str, choices: list[Any], backend: str) -> None:
    """A configuration with a level that there is not is left out, as one that does not compile."""
    if option == "level" and backend != "cpu":
        pytest.skip(f"{backend} has no feature levels")
    configs = [Config({"BLOCK": 256}, **{option: c}) for c in choices]
    kernel = autotune(configs, key=["n"], cache_results=False)(pto.jit(scaled))
    x, y = ones(300), ones(300)
    kernel[(1,)](x, y, 200)
    np.testing.assert_array_equal(y, np.where(np.arange(300) < 200, 4, 1))
    assert len(kernel.configs_timings) == 2
    assert kernel.best_config is not None
    assert kernel.best_config.kwargs[option] in [c.kwargs[option] for c in configs[: 1 + (option != "level")]]


def test_a_space_of_constants_and_passes() -> None:
    space = pto.Space(BLOCK=[256, 512], disable=[(), ("peeling", "trip_count")])
    kernel = autotune(space, key=["n"], cache_results=False)(pto.jit(scaled))
    x, y = ones(300), ones(300)
    kernel[(1,)](x, y, 200)
    np.testing.assert_array_equal(y, np.where(np.arange(300) < 200, 4, 1))
    assert len(kernel.configs_timings) == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"disable": ("peel",)}, "cannot switch off `peel`: the compiler has no such pass"),
        ({"num_threads": "2"}, "pto.Config takes no '2' as `num_threads`"),
        ({"interpret": True}, "sets `interpret`, which is no parameter"),
    ],
)
def test_options_that_no_kernel_has(options: dict[str, Any], text: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        tuner(Config({"BLOCK": 16}, **options))
    assert text in str(caught.value)


@pytest.mark.parametrize("wrap", [lambda b: Config({}, blocking=b), lambda b: Config({"blocking": b})])
def test_blockings_are_tried(wrap: Any) -> None:
    """Both give the same numbers as numpy, and the winner is launched and inspected."""
    choices = [pto.Blocking(mr=2, kc=32), pto.Blocking(mr=4, k_unroll=2)]
    kernel = autotune([wrap(b) for b in choices], key=[], cache_results=False)(pto.jit(multiply))
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((48, 256), (256, 64)))
    for choice in choices:
        single = np.zeros((48, 64), np.float32)
        pto.jit(blocking=choice)(multiply)[(1,)](a, b, single)
        np.testing.assert_array_equal(single, a @ b)
    c = np.zeros((48, 64), np.float32)
    kernel[(1,)](a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    assert len(kernel.configs_timings) == 2
    assert kernel.best_config is not None and kernel.best_config.kwargs["blocking"] in choices
    assert "loop-ir" in {level.name for level in kernel.inspect(a, b, c).levels}
