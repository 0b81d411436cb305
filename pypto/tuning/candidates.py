"""The set-up of a search: the order of its candidates, their measurement, and the error if results differ."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pypto.errors import Diagnostic, PyptoError
from pypto.errors.tuning import Disagreement
from pypto.tuning.agreement import Witnesses, listed
from pypto.tuning.checking import is_lenient
from pypto.tuning.config import Config, constants, launch_of
from pypto.tuning.estimates import MOST, ranked_by_estimates
from pypto.tuning.grids import names_read
from pypto.tuning.launching import call_by_name
from pypto.tuning.model import chip_of
from pypto.tuning.order import points, spread
from pypto.tuning.search import Outcome, Search, first_line

if TYPE_CHECKING:
    from pypto.tuning.autotune import Autotuner

_LARGE: Final = 100  # configurations of a space of which not all are tried


def new_search(tuner: Autotuner, configs: Sequence[Config], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Search:
    """Set up a search over configurations, in their order, or in a spread order if time is limited."""
    places = points([constants(c, tuner.parameters) for c in configs])
    bounded = math.isfinite(tuner.budget) and tuner.perf_model is None
    order = spread(places) if bounded else range(len(configs))
    outcomes = [Outcome(configs[n], launch=launch_of(configs[n], tuner.parameters)) for n in order]
    grid, named = kwargs.get("grid"), call_by_name(tuner.arg_names, args, kwargs)
    used = names_read(grid, {**named, **configs[0].all_kwargs()}) if configs else frozenset()
    free = sorted(tuner.tuned - used)
    witnesses = Witnesses(lambda o: constants(o.config, tuner.parameters), free, bool(tuner.tuned & used))
    search = Search(outcomes, functools.partial(tuner.trial, args, kwargs), tuner.budget, lambda outcome: None,
                   tuner.clock, witnesses=witnesses, lenient=is_lenient(tuner))  # fmt: skip
    if bounded and len(configs) > _LARGE:
        search.points = [places[n] for n in order]
    if search.lenient and not bounded and is_ranked(tuner, named):
        search.rank(ranked_by_estimates(tuner.fn, distinct(outcomes), args, kwargs), MOST)
    if tuner.user_do_bench is not None:
        search.measure = functools.partial(tuner.user_do_bench, quantiles=(0.5, 0.2, 0.8))
    return search


def is_ranked(tuner: Autotuner, named: dict[str, Any]) -> bool:
    """Whether estimates may choose what is tried: on a CPU, where the user neither measures nor ranks himself."""
    measured = tuner.user_do_bench or tuner.perf_model or tuner.user_defined_pre_hook or tuner.user_defined_post_hook
    return not measured and not chip_of(named)


def distinct(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the candidates without those whose launch is that of an earlier one."""
    return list({outcome.launch: outcome for outcome in reversed(outcomes)}.values())[::-1]


def none_is_right(tuner: Autotuner, search: Search, target: str) -> BaseException:
    """Return the error for a search that chose nothing."""
    if not search.outcomes and tuner.early_config_prune is not None:  # the text is Triton's
        text = "No valid autotuner configs after pruning. `early_config_prune` should return at least one config."
        return PyptoError(f"Autotuner error: {text}")
    if not any(o.status == "wrong" for o in search.outcomes):
        none = PyptoError(f"{tuner.__name__}: none of {len(tuner.configs)} configurations is to be tried on {target}")
        return next((o.error for o in search.outcomes if o.error is not None), none)
    return disagreement(tuner, search)


def disagreement(tuner: Autotuner, search: Search) -> Disagreement:
    """Return the error for results that differ without a majority."""
    groups = (f"{listed(search.label(o.config) for o in group.members)}: {group.coverage()}"
              for group in search.groups.groups)  # fmt: skip
    return Disagreement(kernel=tuner.__name__, groups="\n  ".join(groups), grid=about_grid(search))


def about_grid(search: Search) -> str:
    """Return a sentence if the grid ignores the constants that make results differ."""
    suspects = search.witnesses.suspects(search.groups) if search.witnesses else []
    return f"; the grid does not depend on {listed(suspects)}" if suspects else ""


def ranked(measure: Callable[..., float], search: Search) -> Outcome | None:
    """Return the fastest configuration in a chip's timing model."""
    for outcome in search.outcomes:
        if search.has_twin(outcome, outcome.launch):
            continue
        try:
            outcome.times = [measure(config=outcome.config)]
            outcome.status = "ok"
        except Diagnostic as error:
            outcome.status, outcome.reason, outcome.error = "failed", first_line(error), error
        search.interrupts.check()
    return min(search.right(), key=lambda o: o.low, default=None)
