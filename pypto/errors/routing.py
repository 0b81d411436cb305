"""What can be wrong with routes between versions of an operator, and what a route says of a version that fails."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, PyptoWarning
from pypto.errors.examples import Example, programs


def routed(wrong: str, right: str) -> Example:
    """Programs with two versions of a function."""
    head = """
import warnings
from pypto.routing import Routes

routes = Routes()
routes.register("double", "1.0", lambda x: x * 2)
routes.register("double", "1.1", lambda x: x + x)
routes.register("double", "2.0", lambda x: x * 2.01)
"""
    return programs(head + wrong, head + right)


class AlreadyRegistered(Diagnostic, ValueError):
    code = "E396"
    template = "there is {what} already"
    hint = "pass `replace=True` to replace it, or choose another name"
    example = routed(
        'routes.register("double", "1.1", lambda x: 2 * x)',
        'routes.register("double", "1.1", lambda x: 2 * x, replace=True)',
    )


class WrongShares(Diagnostic, ValueError):
    code = "E397"
    template = "the shares of the versions of {operator} must be from 0 to 1 and add up to 1, and {problem}"
    hint = "as in `routes[{operator!r}].ab({{'1.0': 0.9, '2.0': 0.1}})`"
    example = routed('routes["double"].ab({"1.0": 0.9, "1.1": 0.2})', 'routes["double"].ab({"1.0": 0.9, "1.1": 0.1})')


class VersionFailed(Diagnostic, RuntimeError):
    code = "E398"
    template = "{operator}: version {version} failed: {what}"
    hint = "without `strict=True` the reference answers such calls, and the monitor counts them"
    example = routed(
        'routes["double"].ab({"2.0": 1.0}, failures=2, strict=True)\nwith warnings.catch_warnings():\n'
        '    warnings.simplefilter("ignore")\n    routes["double"](x)',
        'routes["double"].ab({"1.1": 1.0}, strict=True)\nroutes["double"](x)',
    )


class VersionDemoted(Diagnostic, PyptoWarning):
    code = "E708"
    template = "{operator}: version {version} answers no more calls ({reason}): {what}"
    hint = "the reference answers in its place, until `routes[{operator!r}].restore({version!r})`"
    example = routed(
        'routes["double"].ab({"2.0": 1.0})\nroutes["double"](x)',
        'routes["double"].ab({"1.1": 1.0})\nroutes["double"](x)',
    )
