"""The decorator of kernels with several configurations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pypto.arguments import Boundary
from pypto.loc import Caller
from pypto.tuning.autotune import Autotuner
from pypto.tuning.checking import check_configs, check_kernel, check_names, check_options
from pypto.tuning.config import Config
from pypto.tuning.launching import Launchable


def autotune(configs: Iterable[Config], key: Sequence[str] = (), **options: Any) -> Callable[[Launchable], Autotuner]:
    """Decorator of a kernel that finds the best of several configurations.

    They are tried at the first launch with new values of the arguments in `key`, and for new dtypes. Arrays that the
    kernel writes to are copied for that: yours stay as they are until the launch itself. The results of all
    configurations are compared, and which elements they store. One that differs from a majority that stores all of
    them is left out with a warning; without such a majority, the launch fails. One that does not compile is left out
    with its reason. Configurations that become the same code are tried once. Then the fast ones race, in turns; the
    winner is the one with the smallest 20 % quantile. It is kept in the disk cache for later processes. Of a `Space`
    of more than a hundred, a sample is tried, and then the neighbours of the fastest as long as one is faster. Ctrl-C
    ends a search, which goes on with the best that it knows. On a simulated device the chip's timing model ranks.

    Parameters
    ----------
    configs : list of Config, or Space
        What to try: constants, and options of the kernel such as `blocking`, `disable` and `num_threads`.
    key : sequence of str
        Names of arguments; of an array, its shape counts.
    prune_configs_by : dict, optional
        "early_config_prune": a function of configurations, arguments by position and the keywords, which gives those
        to try. "perf_model" and "top_k": a function that estimates a time, and how many of the best to try.
    reset_to_zero, restore_value : list of str, optional
        Arrays to fill with zeros before every run, and to put back after it.
    pre_hook, post_hook : function, optional
        Called with the arguments by name before and after every run of a trial.
    do_bench : function, optional
        Measures in place of ours, as ``do_bench(call, quantiles=(0.5, 0.2, 0.8))``.
    cache_results : bool
        Whether winners are kept for later processes; they are not where `do_bench` measures.
    budget : float, optional
        Seconds for the search of one key; 30 for a `Space`, without end for a list. At least one configuration runs,
        and the order in which they are tried is spread over all of them.
    results : str or Path, optional
        A file that `Autotuner.export_tuning` wrote, whose winners need no search; it may be missing.
    warmup, rep, use_cuda_graph
        Accepted without a meaning here.

    Raises
    ------
    Disagreement
        By a launch, when configurations compute different things and none has a majority. Often the grid depends on no
        tuned constant, and some leave a part of the work undone. For kernels of `triton.jit` this is a warning.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> from pypto.tuning import Config, autotune
    >>> @autotune([Config({"BLOCK": 64}), Config({"BLOCK": 128})], key=["n"])
    ... @pto.jit
    ... def double(x, n, BLOCK: pto.constexpr):
    ...     i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    ...     pto.store(x + i, pto.load(x + i, mask=i < n) * 2, mask=i < n)
    >>> x = np.arange(4, dtype=np.float32)
    >>> double[lambda meta: (-(-4 // meta["BLOCK"]),)](x, 4)
    >>> x
    array([0., 2., 4., 6.], dtype=float32)
    """
    caller = Caller.of(sys._getframe(1))
    with Boundary(caller.loc):
        return decorator(caller, configs, key, options)


def decorator(
    caller: Caller, configs: Any, key: Sequence[str], options: dict[str, Any]
) -> Callable[[Launchable], Autotuner]:
    """What `autotune` gives; mistakes have the place of its call."""
    tried = check_configs(configs)
    check_options(options, Autotuner.__init__)

    def decorate(fn: Launchable) -> Autotuner:
        with Boundary(caller.loc):
            check_kernel(fn, "pto.autotune")
            lists = {"key": key, **{name: options.get(name) or () for name in ("reset_to_zero", "restore_value")}}
            check_names(fn, tried, lists)
        return Autotuner(fn, fn.arg_names, tried, key, **options)

    return decorate
