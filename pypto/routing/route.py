"""Routes the calls of an operator: it chooses a version for each, and the reference answers where that fails."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Self

from pypto.errors.library import NoImplementation
from pypto.errors.routing import AlreadyRegistered, VersionDemoted, VersionFailed, WrongShares
from pypto.library.row import Implementation
from pypto.markup import Shown
from pypto.routing.calls import Call, copies, difference, nbytes, overwritten, write_back
from pypto.routing.limits import Threads
from pypto.routing.shares import Shares
from pypto.routing.versions import Version, reason_of

# Operators that are being routed: a version may call the operator itself, which is then the first that fits.
_NESTED: Final[ContextVar[frozenset[str]]] = ContextVar("NESTED", default=frozenset())


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy by which versions are compared, stopped and demoted; see `Route.ab`."""

    shadow: float = 0.0
    failures: int = 3
    limit: float = 0.0
    slower: float = 0.0
    strict: bool = False


class Route(Shown):
    """A route: the versions of one operator, and the policy that chooses which of them answers a call.

    Attributes
    ----------
    name : str
        The operator.
    versions : dict of str to Version
        The versions by name, with what was counted.
    reference : str
        The version that answers where another one fails; empty means the first that runs on backend and dtype.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: dict[str, Version] = {}
        self.reference = ""
        self.shares: Shares | None = None
        self.policy = Policy()
        self.threads = Threads()
        self.lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<route of {self.name}: {', '.join(self.versions)}>"

    def _repr_html_(self) -> str:
        from pypto.routing.monitor import Report

        return Report.of([self])._repr_html_()

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Calls the operator."""
        raise NotImplementedError

    # --- what the user says --------------------------------------------------------------------------------------

    def register(
        self,
        version: str,
        run: Callable[..., Any],
        *,
        platforms: Sequence[str] = (),
        dtypes: Sequence[str] = (),
        replace: bool = False,
    ) -> Self:
        """Adds a version.

        Parameters
        ----------
        version : str
        run : callable
            Computes the operator as `Implementation.run` does for a library row, and as the function of the reference
            does otherwise.
        platforms, dtypes : sequence of str
            As in `Implementation`; empty means any.
        replace : bool
            Whether it replaces a version of that name.

        Raises
        ------
        AlreadyRegistered
            If there is a version of that name, and `replace` is not set.
        """
        with self.lock:
            if version in self.versions and not replace:
                raise AlreadyRegistered(what=f"version {version!r} of {self.name}")
            share = self.versions[version].share if version in self.versions else 0.0
            self.versions[version] = Version(Implementation(version, run, tuple(platforms), tuple(dtypes)))
            self.versions[version].give(share, self.policy.shadow)
            self.changed()
        return self

    def unregister(self, version: str) -> Self:
        """Removes a version that receives no calls.

        Raises
        ------
        WrongShares
            If the version has a share of the calls.
        """
        if self.require(version).share and self.shares:
            raise WrongShares(operator=self.name, problem=f"version {version!r} has one and cannot be removed")
        with self.lock:
            del self.versions[version]
            self.changed()
        return self

    def ab(
        self,
        shares: Mapping[str, float],
        *,
        reference: str = "",
        shadow: float = 0.0,
        failures: int = 3,
        limit: float = 0.0,
        slower: float = 0.0,
        strict: bool = False,
    ) -> Self:
        """Gives each version a share of the calls, from now on.

        Parameters
        ----------
        shares : mapping of str to float
            The parts of the calls by version. They add up to 1. The assignment is a fixed sequence: among n calls, a
            version with share s gets n s, and exactly so where n s is an integer.
        reference : str
            The version that is right. By default, the first that runs on backend and dtype.
        shadow : float
            The part of the calls of each other version that are computed by the reference too, and compared within
            the tolerance of the row. Calls of a version and dtype are always compared until one has agreed.
        failures : int
            The number of failed calls after which a version is demoted: its calls go to the reference. One wrong
            result, or one call beyond the time limit, demotes at once.
        limit : float
            Seconds after which the reference answers in place of another version; 0 means no limit. Calls with a limit
            run on a second thread. A thread that never returns keeps its core and memory; see `Report.stuck`.
        slower : float
            Demotes a version whose compared calls take so many times as long as the reference's, by the median of the
            last nine; 0 means never.
        strict : bool
            Whether a failed version raises an error, in place of the answer of the reference.

        Raises
        ------
        WrongShares, NoImplementation
        """
        for name in (*shares, *([reference] if reference else [])):
            self.require(name)
        wrong = next((f"that of {n!r} is {x:g}" for n, x in shares.items() if not 0 <= x <= 1), "")
        if wrong or abs(sum(shares.values()) - 1) > 1e-9:
            raise WrongShares(operator=self.name, problem=wrong or f"their sum is {sum(shares.values()):g}")
        with self.lock:
            self.shares, self.reference = Shares(shares), reference
            self.policy = Policy(shadow, max(1, failures), limit, slower, strict)
            for name, version in self.versions.items():
                version.give(shares.get(name, 0.0), shadow)
        self.switch(True)
        return self

    def monitor(self) -> Self:
        """Counts the calls, all of which the reference answers."""
        return self.ab({self.default().version: 1.0})

    def restore(self, version: str) -> Self:
        """Lets a demoted version answer again; its first call of each dtype is compared."""
        one = self.require(version)
        with self.lock:
            one.restore()
        return self

    def clear(self) -> Self:
        """Ends the route: calls go to the first version that fits, and nothing is counted."""
        with self.lock:
            self.shares = None
        self.switch(False)
        return self

    def require(self, version: str) -> Version:
        """Returns a version by its name."""
        if version not in self.versions:
            known = ", ".join(self.versions)
            raise NoImplementation(operator=self.name, what=f"of version {version!r}", there=known)
        return self.versions[version]

    def switch(self, on: bool) -> None:
        """Installs this route in the operator, or removes it."""

    def changed(self) -> None:
        """Tells the operator that its versions have changed."""

    def function(self, version: Version) -> Callable[..., Any]:
        """Returns the function that calls a version."""
        return version.run

    def check(self, call: Call) -> None:
        """Raises the error of a call that no version can compute, if the operator knows it."""

    def default(self) -> Implementation:
        """Returns the version that answers where nobody names another one."""
        return next(iter(self.versions.values())).implementation

    # --- a call --------------------------------------------------------------------------------------------------

    def answer(self, call: Call, right: Version, fits: Callable[[Implementation], bool], kind: Any) -> Any:
        """Computes one call by the version that the shares choose, or by the reference."""
        if self.shares is None or self.name in _NESTED.get():
            return call.prepare(self.function(right), call.values)()
        token = _NESTED.set(_NESTED.get() | {self.name})
        try:
            with self.lock:
                version = self.versions[self.shares.next()]
                computes, compared = version.called(fits(version.implementation), version is right, kind)
            if version is right or not computes:
                return self.by_reference(right, call)[0]
            return self.attempt(version, right, call, (kind,) if compared else ())
        finally:
            _NESTED.reset(token)

    def by_reference(self, right: Version, call: Call) -> tuple[Any, float]:
        """Computes a call by the reference, on the caller's arguments; returns the results and seconds."""
        start = time.perf_counter()
        result = call.prepare(self.function(right), call.values)()
        seconds, moved = time.perf_counter() - start, nbytes(call.values, result)
        with self.lock:
            right.record(seconds, moved)
            right.answered()
        return result, seconds

    def attempt(self, version: Version, right: Version, call: Call, compared: tuple[Any, ...]) -> Any:
        """Computes a call by a version that may fail, on copies of its effects, or of everything if it is compared."""
        try:
            values = copies(call.values, None if compared else call.effects)
            task, start = call.prepare(self.function(version), values), time.perf_counter()
            result = self.threads.run(task, self.policy.limit) if self.policy.limit else task()
            seconds = time.perf_counter() - start
        except Exception as error:
            reason, what = reason_of(error), f"{type(error).__name__}: {error}"
            if self.policy.strict:
                self.check(call)
                self.count(version, reason, what)
                raise VersionFailed(operator=self.name, version=version.name, what=what) from error
        else:
            with self.lock:
                version.record(seconds, nbytes(values, result))
            if compared:
                return self.compare(version, right, call, (*compared, values, result, seconds))
            write_back(call.values, values, call.effects)
            with self.lock:
                version.answered()
            return result
        # The exception is gone here, and with it the memory of the version that failed.
        result, _ = self.by_reference(right, call)  # if this fails too, the call is wrong, and not the version
        self.count(version, reason, what)
        return result

    def compare(self, version: Version, right: Version, call: Call, computed: tuple[Any, Any, Any, float]) -> Any:
        """Computes a call by the reference, compares a version's results with it, and returns the reference's."""
        kind, values, result, seconds = computed
        problem = overwritten(call, values)
        expected, usual = self.by_reference(right, call)
        what, largest = difference(call, call.written(result, values), call.written(expected, call.values))
        with self.lock:
            problem = problem or what
            version.compare(kind, largest, seconds / max(usual, 1e-9), not problem)
            ratio = version.ratio
        if problem:
            self.count(version, "different", problem)
        elif 0 < self.policy.slower < ratio:
            self.count(version, "slow", f"it takes {ratio:.1f} times as long as the reference")
        if problem and self.policy.strict:
            raise VersionFailed(operator=self.name, version=version.name, what=problem)
        return expected

    def count(self, version: Version, reason: str, what: str) -> None:
        """Counts a failure, and demotes the version where its policy says so."""
        with self.lock:
            demoted = version.fail(reason, self.policy.failures)
        if demoted:
            warning = VersionDemoted(operator=self.name, version=version.name, reason=reason, what=what)
            warnings.warn(warning, stacklevel=2)
