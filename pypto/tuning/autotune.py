"""Autotuning of a kernel's constants: every configuration runs once per key, and the fastest one is used."""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pypto.arguments import Boundary
from pypto.errors import PyptoError, PyptoWarning
from pypto.errors.launch import WrongConfiguration
from pypto.loc import Loc
from pypto.runtime.tensors import unseen
from pypto.tuning.bench import Bench, in_order, median_of, nothing
from pypto.tuning.candidates import about_grid, disagreement, new_search, none_is_right, ranked
from pypto.tuning.config import Config, Space, constants, labels
from pypto.tuning.grids import names_read, sizes
from pypto.tuning.interrupts import noting_interrupts
from pypto.tuning.launching import KernelInterface, Launchable, base_of, call_by_name, let_vary
from pypto.tuning.live import watching
from pypto.tuning.model import PREDICTED, chip_of, predicted
from pypto.tuning.report import Section, TuningReport
from pypto.tuning.search import Clock, Outcome
from pypto.tuning.snapshot import is_array, zero
from pypto.tuning.store import Key, Winners, machine, source_of, write

_SPACE_BUDGET: Final = 30.0  # seconds
_ANY_GRID: Final = "any grid"  # a part of the key: programs do the same whatever was chosen


class Autotuner(KernelInterface):
    """A kernel that tries its configurations at the first launch of every key; see `autotune`.

    `cache` holds what was chosen: from the values of the key and the dtypes of the arrays to a `Config`. `clock` gives
    the nanoseconds by which everything is timed.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # libraries that derive from it pass these by position
        self,
        fn: Launchable,
        arg_names: list[str],
        configs: Iterable[Config] | None,
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
        cache_results: bool = True,
        budget: float | None = None,
        results: str | Path | None = None,
    ) -> None:
        self.fn, self.arg_names, self.keys = fn, arg_names, list(key)
        self.clock: Clock = time.perf_counter_ns
        self.budget = budget or (_SPACE_BUDGET if isinstance(configs, Space) else math.inf)
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
        let_vary(fn, {name for config in self.configs for name in config.kwargs})
        self.nargs: dict[str, Any] | None = None
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Any] = {}
        self.bench_time = 0.0
        self.sections: dict[tuple[str, tuple[Any, ...]], Section] = {}
        self.chosen: dict[tuple[str, tuple[Any, ...]], tuple[str, float]] = {}
        values = {name: {repr(constants(c, set(arg_names)).get(name)) for c in self.configs} for name in arg_names}
        self.tuned = frozenset(name for name, of in values.items() if len(of) > 1)
        self.bound_grids: dict[Any, bool] = {}
        # A user's function may measure any quantity, and a later function another one.
        source = source_of(self.base_fn) if cache_results and do_bench is None else ""
        self.parameters = frozenset(self.arg_names)
        self.winners = Winners(self.__name__, source, self.configs, self.parameters)
        if results is not None and Path(results).exists():
            self.import_tuning(results)

    @property
    def restore_idx(self) -> list[int]:
        """The numbers of arrays to restore, for tuners of others: with those that the kernel is known to write.

        Inductor measures without copies of any other array, so a kernel in place would compute from its own results.
        """
        restored = {*self.restore_value, *getattr(self.fn, "written", ())}
        return [n for n, name in enumerate(self.arg_names) if name in restored]

    @Boundary()
    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best configuration; a new key first tries all configurations."""
        result = self.fn.run(*args, **self.completed(args, kwargs))
        self.nargs = None
        return result

    def completed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return a launch's arguments by name, with the best configuration's constants, and run its hook.

        Raises
        ------
        WrongConfiguration
            When the launch passes a tuned constant.
        """
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.configs[0]
        if conflicts := sorted(name for name in kwargs if any(name in c.kwargs for c in self.configs)):
            problem = f"{', '.join(conflicts)} given in the launch and tuned as well"
            way, place = "leave out of the launch what is tuned", Loc.of_code(self.base_fn.__code__)
            raise WrongConfiguration(place, kernel=self.__name__, problem=problem, way=way)
        if len(self.configs) > 1:
            named = call_by_name(self.arg_names, args, kwargs)
            chip = chip_of(named)
            keys = self.keys_of(named, kwargs.get("grid"))
            known_config = next((self.cache[known] for key in keys if (known := at(key, chip)) in self.cache), None)
            config = known_config or self.choose(keys, args, kwargs, chip)
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        return {**kwargs, **config.all_kwargs()}

    @Boundary()
    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile for every configuration, without running."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        return [self.fn.warmup(*args, **kwargs, **c.all_kwargs()) for c in self.prune_configs(kwargs)]

    @Boundary()
    def tune(self, *args: Any, grid: Any, **kwargs: Any) -> TuningReport:
        """Search again for these arguments, and use the winner from now on.

        Takes what a launch takes; the user's arrays stay as they are. Gives the report of this search.
        """
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        named = call_by_name(self.arg_names, args, kwargs)
        self.best_config = self.search(self.keys_of(named, grid), args, {**kwargs, "grid": grid}, chip_of(named))
        self.nargs = None
        return TuningReport(self.__name__, (self.latest,))

    def inspect(self, *args: Any, **kwargs: Any) -> Any:
        """Inspect the kernel with the configuration chosen for these arguments; see `Kernel.inspect`.

        Raises
        ------
        PyptoError
            When none was chosen yet.
        """
        config = self.winner(args, kwargs)
        return self.fn.inspect(*args, **kwargs, **config.kwargs)

    def winner(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Config:
        """Return the configuration that launches with these arguments use."""
        named = call_by_name(self.arg_names, args, kwargs)
        chip, plain = chip_of(named), self.key_of(named)
        known = [config for place, config in self.cache.items() if place[: len(plain)] == plain]
        here = [c for place, c in self.cache.items() if place in (at(plain, chip), at((*plain, _ANY_GRID), chip))]
        config = next(iter((*here, *reversed(known))), None) or self.winners.find(plain, chip)
        config = config or self.winners.find((*plain, _ANY_GRID), chip)
        if config is None:
            raise PyptoError(f"{self.__name__}: no configuration was chosen for these arguments yet; launch it first")
        return config

    def key_of(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        given = {name: named[name] for name in self.arg_names if name in named}
        dtypes = (str(x.dtype) for x in given.values() if hasattr(x, "dtype"))
        return (*(key_value(given[name]) for name in self.keys if name in given), *dtypes)

    def keys_of(self, named: Mapping[str, Any], grid: Any) -> tuple[Key, ...]:
        """Return the keys under which a winner may be stored.

        One that was found for a grid that depends on the tuned constants would do a part of the work on a grid that
        does not. There, it counts for grids of the same size, or for all where it does not change what a program does.
        """
        key = self.key_of(named)
        if self.is_bound(grid, named):
            return (key,)
        return (*key, _ANY_GRID), (*key, f"grid {sizes(grid, {**named, **self.configs[0].all_kwargs()})}")

    def is_bound(self, grid: Any, named: Mapping[str, Any]) -> bool:
        """Whether a grid is a function that reads a tuned constant."""
        code = getattr(grid, "__code__", None)
        if not callable(grid) or code in self.bound_grids:
            return callable(grid) and self.bound_grids[code]
        bound = bool(names_read(grid, {**named, **self.configs[0].all_kwargs()}) & self.tuned)
        if code is not None:
            self.bound_grids[code] = bound
        return bound

    def choose(self, keys: Sequence[Key], args: tuple[Any, ...], kwargs: dict[str, Any], chip: str = "") -> Config:
        """Choose the fastest correct configuration; the user's arrays are restored, except those to reset."""
        named = call_by_name(self.arg_names, args, kwargs)
        best = None
        for key in keys:
            best = self.winners.find(key, chip)
            if best is not None:
                self.cache[at(key, chip)] = best
                break
        best = best or self.search(keys, args, kwargs, chip)
        self.pre_hook({**named, **best.all_kwargs()}, reset_only=True)
        for name in self.reset_to_zero:
            zero(named[name])
        return best

    @unseen()
    def search(self, keys: Sequence[Key], args: tuple[Any, ...], kwargs: dict[str, Any], chip: str = "") -> Config:
        """Try the configurations, for a `chip` if one is named, and store the fastest.

        It is kept under the last of the keys, or under the first one where the size of the grid does not matter.

        Raises
        ------
        Disagreement
            When results differ, and no majority shows which ones are correct; a warning for kernels of Triton.
        """
        start, target = self.clock(), machine(chip)[0]
        configs = [c for c in self.prune_configs(kwargs) if c.fits(target)]
        search = new_search(self, configs, args, kwargs)
        names = labels(configs, self.parameters)
        search.label = lambda config: names[id(config)]
        best: Outcome | None = None
        try:
            with (
                noting_interrupts() as search.interrupts,
                watching(self.__name__, search.outcomes, names) as search.tell,
            ):
                if chip.endswith(PREDICTED):
                    best = ranked(functools.partial(self.predict, args, kwargs, chip), search)
                else:
                    best = search.run()
                search.interrupted |= search.interrupts.take()
        finally:
            self.bench_time = (self.clock() - start) / 1e9
            self.configs_timings = {o.config: o.quantiles for o in search.outcomes if o.status != "equal"}
        key = keys[0] if len(keys) == 1 or search.alike else keys[-1]
        shown = (*key, target) if chip else key
        self.latest = Section.of(shown, search.outcomes, names, best, self.bench_time, search.interrupted)
        self.sections[target, key] = self.latest
        if best is None:
            raise none_is_right(self, search, target)
        if search.undecided:
            warnings.warn(str(disagreement(self, search)), PyptoWarning, stacklevel=6)
        for outcome in search.outcomes:
            if outcome.status == "wrong" and not search.undecided:
                said = f"{self.__name__} with {names[id(outcome.config)]} is left out: {outcome.reason}"
                warnings.warn(said + about_grid(search), PyptoWarning, stacklevel=6)
        self.chosen[target, key] = self.winners.name_of(best.config), best.low
        if not search.interrupted and not search.undecided:
            self.winners.keep(key, best.config, best.low, chip)
        self.cache[at(key, chip)] = best.config
        return best.config

    def predict(self, args: tuple[Any, ...], kwargs: dict[str, Any], chip: str, config: Config) -> float:
        """Return the milliseconds of one configuration in a chip's timing model."""
        return predicted(self.fn, args, {**kwargs, **config.all_kwargs()}, chip)

    def rank(self, *args: Any, grid: Any, target: str = "ascend910b2", **kwargs: Any) -> TuningReport:
        """Try all configurations in the timing model of a chip that need not be there; the winner is kept for it.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the kernel without what is tuned. Arrays are not read.
        grid : int, tuple or function
            As in ``kernel[grid]``.
        target : str
            A chip, as in ``ascend910b2``, ``ascend910_9382`` or ``ascend950pr_9589``.

        Returns
        -------
        TuningReport
            Of this search, the fastest at the head. `export_tuning` writes the winner.

        Notes
        -----
        On a simulated device, launches tune themselves so: how long its checks take says nothing about a chip.
        """
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        named, chip = call_by_name(self.arg_names, args, kwargs), target + PREDICTED
        self.search(self.keys_of(named, grid), args, {**kwargs, "grid": grid}, chip)
        return TuningReport(self.__name__, (self.latest,))

    def trial(self, args: tuple[Any, ...], kwargs: dict[str, Any], config: Config) -> Bench:
        """Compile a configuration for runs on private memory."""
        return Bench.of(self, args, kwargs, config)

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Any:
        """Measure one configuration: median, 20 % and 80 % quantile in milliseconds."""
        trial = self.trial(args, meta, config)
        try:
            if self.user_do_bench is not None:
                return self.user_do_bench(in_order(trial.prepare, trial.call), quantiles=(0.5, 0.2, 0.8))
            return median_of(trial.prepare, trial.call, self.clock)
        finally:
            trial.restore()

    def __repr__(self) -> str:
        return f"<autotuner of {self.__name__}({', '.join(self.arg_names)}): {len(self.configs)} configurations>"

    def _repr_html_(self) -> str:
        from pypto.tuning.card import autotuner_card

        return autotuner_card(self)

    def tuning_report(self) -> TuningReport:
        """What was tried in this process, configuration by configuration.

        Returns
        -------
        TuningReport
            Prints as a table, shows itself in notebooks, and draws itself with `plot`.
        """
        return TuningReport(self.__name__, tuple(self.sections.values()))

    def export_tuning(self, path: str | Path) -> int:
        """Write the winners of this process to a JSON file, beside those that it has; gives how many it has then.

        The file is meant to be kept with the code; `autotune` reads it where it is named as ``results``.
        """
        return write(path, self.__name__, self.chosen)

    def import_tuning(self, path: str | Path) -> int:
        """Use the winners of a JSON file from `export_tuning`; gives how many are of this kernel.

        Raises
        ------
        TuningFileError
            When it is no such file.
        """
        return self.winners.read(path)

    def prune_configs(self, kwargs: dict[str, Any]) -> list[Config]:
        """Return the configurations to try for these arguments."""
        named, configs = self.nargs or {}, self.configs
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(configs, named, **kwargs))
        top = self.configs_top_k
        most = int(len(self.configs) * top) if isinstance(top, float) and top <= 1.0 else int(top)
        if self.perf_model is None or len(configs) <= most:
            return configs
        model = self.perf_model
        return sorted(configs, key=lambda c: model(**named, **kwargs, **c.all_kwargs()))[:most]


def at(key: Key, chip: str) -> Key:
    """Return the cache key of a winner."""
    return (*key, chip) if chip else key


def key_value(value: Any) -> Any:
    """Return an argument as a part of a key; an array counts by its shape."""
    return tuple(value.shape) if is_array(value) or hasattr(value, "shape") else value


__all__ = ["Autotuner", "Config", "is_array"]
