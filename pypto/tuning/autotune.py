"""Constants that are found by trial: every configuration runs once per key, and the fastest stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pypto.errors import Diagnostic
from pypto.runtime.mode import mode
from pypto.tuning.launching import KernelInterface, Launchable, base_of, call_by_name
from pypto.tuning.snapshot import Snapshot, is_array, written_by, zero

FAILED: Final = (float("inf"),) * 3
_REPEAT_MS: Final = 10.0
_MOST_RUNS: Final = 20


class Config:
    """Values for some of a kernel's constants, to be tried.

    Parameters
    ----------
    kwargs : dict
        The constants by name.
    num_warps, num_stages, num_ctas, maxnreg, ir_override and others
        What GPUs are told; kept, passed on to the kernel, and without a meaning on a CPU.
    pre_hook : function, optional
        Called with the arguments by name before every launch with this configuration.
    """

    def __init__(
        self,
        kwargs: dict[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[..., Any] | None = None,
        ir_override: str | None = None,
        **others: Any,
    ) -> None:
        self.kwargs, self.pre_hook, self.others = kwargs, pre_hook, others
        self.num_warps, self.num_stages, self.num_ctas = num_warps, num_stages, num_ctas
        self.maxnreg, self.ir_override = maxnreg, ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """What the kernel is launched with."""
        names = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
        hints = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return {**self.kwargs, **hints, **self.others}

    def __str__(self) -> str:
        names = ("num_warps", "num_ctas", "num_stages", "maxnreg")
        return ", ".join(f"{k}: {v}" for k, v in (*self.kwargs.items(), *((n, getattr(self, n)) for n in names)))

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (*sorted(self.all_kwargs().items()), self.pre_hook)


class Autotuner(KernelInterface):
    """A kernel that tries its configurations at the first launch of every key; see `autotune`.

    `cache` holds what was chosen: from the values of the key and the dtypes of the arrays to a `Config`.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # libraries that derive from it pass these by position
        self,
        fn: Launchable,
        arg_names: list[str],
        configs: list[Config] | None,
        key: Sequence[str],
        reset_to_zero: Iterable[str] | None = None,
        restore_value: Iterable[str] | None = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: int | None = None,
        rep: int | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        self.fn, self.arg_names, self.keys = fn, arg_names, list(key)
        self.configs = list(configs or []) or [Config({})]
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.reset_to_zero, self.restore_value = list(reset_to_zero or ()), list(restore_value or ())
        self.user_defined_pre_hook, self.user_defined_post_hook = pre_hook is not None, post_hook is not None
        self.pre_hook: Callable[..., Any] = pre_hook or nothing
        self.post_hook: Callable[..., Any] = post_hook or nothing
        pruning = dict(prune_configs_by or {})
        self.early_config_prune = pruning.get("early_config_prune", pruning.get("prune_num_stages_by"))
        self.perf_model, self.configs_top_k = pruning.get("perf_model"), pruning.get("top_k", 1.0)
        self.num_warmups, self.num_reps, self.use_cuda_graph = warmup, rep, use_cuda_graph
        self.user_do_bench, self.cache_results = do_bench, cache_results
        self.base_fn = base_of(fn)
        self.__name__, self.__doc__ = self.base_fn.__name__, self.base_fn.__doc__
        self.nargs: dict[str, Any] | None = None
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Any] = {}
        self.bench_time = 0.0

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best configuration, after trying them all where the key is new."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.configs[0]
        if len(self.configs) > 1:
            key = self.key_of(call_by_name(self.arg_names, args, kwargs))
            if key not in self.cache:
                self.cache[key] = self.choose(args, kwargs)
            config = self.cache[key]
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **{**kwargs, **config.all_kwargs()})
        self.nargs = None
        return result

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile for every configuration, without running."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        return [self.fn.warmup(*args, **kwargs, **c.all_kwargs()) for c in self.prune_configs(kwargs)]

    def key_of(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        given = {name: named[name] for name in self.arg_names if name in named}
        dtypes = (str(x.dtype) for x in given.values() if hasattr(x, "dtype"))
        return (*(given[name] for name in self.keys if name in given), *dtypes)

    def choose(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        """The fastest configuration. Arrays are afterwards as before, but for those that are to be reset."""
        start, timings, failures = time.perf_counter(), {}, []
        for config in distinct(self.prune_configs(kwargs)):
            try:
                timings[config] = self._bench(*args, config=config, **kwargs)
            except Diagnostic as error:
                timings[config] = FAILED
                failures.append(error)
        if len(failures) == len(timings):
            raise failures[0]
        self.bench_time, self.configs_timings = time.perf_counter() - start, timings
        named = call_by_name(self.arg_names, args, kwargs)
        best: Config = min(timings, key=lambda c: first(timings[c]))
        self.pre_hook({**named, **best.all_kwargs()}, reset_only=True)
        for name in self.reset_to_zero:
            zero(named[name])
        return best

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Any:
        """Times of one configuration: median, 20 % and 80 % quantile in milliseconds."""
        conflicts = sorted(meta.keys() & config.kwargs.keys())
        if conflicts:
            raise ValueError(f"{self.__name__}: {', '.join(conflicts)} given in the launch and tuned as well")
        current = {**meta, **config.all_kwargs()}
        named = call_by_name(self.arg_names, args, current)
        version = self.fn.run(*args, **{**current, "warmup": True})
        saved = Snapshot.of(written_by(version, named) | {name: named[name] for name in self.restore_value})

        def prepare() -> None:
            saved.restore()
            for name in self.reset_to_zero:
                zero(named[name])
            for hook in (config.pre_hook or nothing, self.pre_hook):
                hook(named)

        def call() -> None:
            with mode(watch=None):  # a profile would slow some configurations down more than others
                self.fn.run(*args, **current)
            self.post_hook(named, exception=None)

        try:
            if self.user_do_bench is not None:
                return self.user_do_bench(in_order(prepare, call), quantiles=(0.5, 0.2, 0.8))
            return measured(prepare, call)
        finally:
            saved.restore()

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """The configurations that are worth a trial for these arguments."""
        named, configs = self.nargs or {}, self.configs
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(configs, named, **kwargs))
        top = self.configs_top_k
        most = int(len(self.configs) * top) if isinstance(top, float) and top <= 1.0 else int(top)
        if self.perf_model is None or len(configs) <= most:
            return configs
        model = self.perf_model
        return sorted(configs, key=lambda c: model(**named, **kwargs, **c.all_kwargs()))[:most]


def nothing(named: Mapping[str, Any], **_: Any) -> None:
    """The hook where there is none."""


def in_order(*functions: Callable[[], None]) -> Callable[[], None]:
    """One function that calls several."""

    def call_all() -> None:
        for function in functions:
            function()

    return call_all


def first(times: Any) -> float:
    return float(times[0] if isinstance(times, list | tuple) else times)


def distinct(configs: Iterable[Config]) -> list[Config]:
    """Configurations that differ here: what GPUs alone are told makes no difference."""
    found: dict[Any, Config] = {}
    for config in configs:
        found.setdefault((tuple(sorted((k, repr(v)) for k, v in config.kwargs.items())), config.pre_hook), config)
    return list(found.values())


def measured(prepare: Callable[[], None], call: Callable[[], None]) -> tuple[float, float, float]:
    """Times of a few runs, of which one is for warming up; slow calls run twice."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < _MOST_RUNS and sum(times) < _REPEAT_MS):
        prepare()
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / 1e6)
    ordered = sorted(times[1:])
    last = len(ordered) - 1
    return ordered[last // 2], ordered[last // 5], ordered[last * 4 // 5]


def autotune(configs: list[Config], key: Sequence[str] = (), **options: Any) -> Callable[[Launchable], Autotuner]:
    """Decorator of a kernel that finds the best of several configurations.

    Every configuration runs at the first launch with new values of the arguments in `key`, and for new dtypes. It runs
    on what the arrays then hold; each array that the kernel writes is put back before the next run.

    Parameters
    ----------
    configs : list of Config
        What to try.
    key : sequence of str
        Names of arguments.
    prune_configs_by : dict, optional
        "early_config_prune": a function of configurations, arguments by position and the keywords, which gives those
        to try. "perf_model" and "top_k": a function that estimates a time, and how many of the best to try.
    reset_to_zero, restore_value : list of str, optional
        Arrays to fill with zeros before every run, and to put back after it.
    pre_hook, post_hook : function, optional
        Called with the arguments by name before and after every run of a trial.
    do_bench : function, optional
        Measures in place of ours, as ``do_bench(call, quantiles=(0.5, 0.2, 0.8))``.
    warmup, rep, use_cuda_graph, cache_results
        Accepted without a meaning here.

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
    return lambda fn: Autotuner(fn, fn.arg_names, configs, key, **options)


__all__ = ["Autotuner", "Config", "autotune", "is_array"]
