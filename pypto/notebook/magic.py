"""`%%pto`: a cell of kernels, and what is to be shown of the launch at its end."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pypto.errors import PyptoError
from pypto.errors.notebook import rendered
from pypto.notebook.cell import Launch, evaluated
from pypto.options import suggestion

# Option -> whether it takes a value, and what it does.
OPTIONS: Final = MappingProxyType({
    "inspect": (False, "show the kernel from its source, with types, down to machine code, linked by line"),
    "level": (True, "show one level as text: tile-ir, optimized-ir, loop-ir, llvm-ir, assembly, block-ir, ascendc"),
    "time": (False, "time the launch; arrays are afterwards as after one launch"),
    "verify": (False, "launch compiled and interpreted, and compare: the first difference is an error"),
    "explain": (False, "say why the kernel was compiled as it was"),
    "interpret": (False, "launch in the interpreter, with every access checked"),
    "checked": (False, "launch compiled with checks: out of bounds, races, failed assertions, overflowing indices"),
    "target": (True, "a device to launch on (ascend-sim, ascend:0), or a chip to predict it for (ascend910b2)"),
    "help": (False, "this text"),
})  # fmt: skip
HELP: Final = "\n".join([
    "A cell of kernels: every function without a decorator becomes one, as if `@pto.jit` stood above it.",
    "",
    "The cell is Python and runs as such. Where its last line is a launch, the options say what to show of it:",
    "",
    "    %%pto --time",
    "    def add(x, y, out, BLOCK: pto.constexpr):",
    "        i = pto.program_id(0) * BLOCK",
    "        out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]",
    "",
    "    add[(4,)](x, y, out, BLOCK=256)",
    "",
    "As a line, `%pto` does the same with a launch of kernels that are there: `%pto --time add[(4,)](x, y, out, 256)`.",
    "",
    *(f"  --{name + (' NAME' if takes else ''):<14}{text}" for name, (takes, text) in OPTIONS.items()),
])  # fmt: skip


class MagicUsage(PyptoError, ValueError):
    """The line of a magic says something that cannot be done; the message says what to write."""

    def _render_traceback_(self) -> list[str]:
        return rendered(str(self), [], self.with_traceback(None))


@dataclass(frozen=True, slots=True)
class MagicLine:
    """What the line of a magic asks for: options by name, and the code behind them."""

    options: dict[str, str] = field(default_factory=dict)
    code: str = ""

    @staticmethod
    def of(line: str) -> MagicLine:
        """Read the options at the start of a line, and the code after them.

        Examples
        --------
        >>> MagicLine.of("--time --target ascend-sim add[1](x)")
        MagicLine(options={'time': '', 'target': 'ascend-sim'}, code='add[1](x)')
        """
        options, code = dict[str, str](), line.strip()
        while code.startswith("--"):
            word, _, code = code.partition(" ")
            name, equals, value = word[2:].partition("=")
            if name not in OPTIONS:
                known = " ".join(f"--{option}" for option in OPTIONS)
                raise MagicUsage(f"there is no option --{name}{suggestion(name, OPTIONS)}; there are {known}")
            if OPTIONS[name][0] and not equals:
                value, _, code = code.strip().partition(" ")
            if OPTIONS[name][0] and not value:
                raise MagicUsage(f"--{name} needs a name: {OPTIONS[name][1]}")
            options[name] = value
            code = code.strip()
        return MagicLine(options, code)


@dataclass(frozen=True, slots=True)
class Magic:
    """The magic of one shell."""

    shell: Any

    def __call__(self, line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True
        request = MagicLine.of(line)
        if "help" in request.options:
            print(HELP)
            return None
        if cell is not None and request.code:
            raise MagicUsage(f"{request.code!r} is no option; the launch is the last line of the cell")
        value = evaluated(self.shell, f"%%pto {line}" if cell is not None else f"%pto {line}", cell or request.code)
        if isinstance(value, Launch):
            return show(value, request.options)
        if request.options:
            wanted = " ".join(f"--{name}" for name in request.options)
            raise MagicUsage(f"{wanted} needs a launch: end the cell with one, as in add[(4,)](x, y, out, BLOCK=256)")
        return value


def show(launch: Launch, options: dict[str, str]) -> Any:
    """Make a launch, and show of it what is asked for."""
    __tracebackhide__ = True
    target, level = options.get("target", ""), options.get("level", "")
    if is_target(target):
        with chip(target):
            texts_shown = list(texts(launch, options.keys() - {"time", "verify"}, level))
        texts_shown.append(predicted(launch, target))
    else:
        with place(target, "interpret" in options), checks("checked" in options):
            compared = verified(launch) if "verify" in options else None
            result = launch() if compared is None else None
            texts_shown = [compared, result, *texts(launch, options.keys(), level)]
    for shown in texts_shown:
        display(shown)


def profiled(launch: Launch) -> Any:
    """A profile of one more launch, for the time of every line; the arrays are put back."""
    import pypto

    with unchanged(launch), pypto.profile() as profile:
        launch()
    return profile


@contextmanager
def unchanged(launch: Launch) -> Iterator[None]:
    """Put the arrays of a launch back as they are now."""
    from pypto.tuning.snapshot import Snapshot, is_array

    arrays = {name: x for name, x in launch.named.items() if is_array(x)}
    before = Snapshot.of({name: x for name, x in arrays.items() if not is_read_only(x)})
    try:
        yield
    finally:
        before.restore()


def is_read_only(array: Any) -> bool:
    return hasattr(array, "flags") and not array.flags.writeable


def predicted(launch: Launch, target: str) -> Any:
    """How long the launch takes on a chip; of a tuner, what each configuration takes."""
    if hasattr(launch.kernel, "rank"):
        return launch.kernel.rank(*launch.args, **launch.given, grid=launch.grid, target=target)
    from pypto.debug.simulate import simulate

    return simulate(launch.kernel, target)[launch.grid](*launch.args, **launch.given)


def is_target(name: str) -> bool:
    """Whether kernels can be compiled for it without a device."""
    from pypto.backends import registry

    return bool(name) and any(name in plugin.targets for plugin in registry.plugins())


def chip(name: str) -> AbstractContextManager[Any]:
    from pypto.compile import session

    context: AbstractContextManager[Any] = session().devices.chip(name)
    return context


def place(device: str, interpret: bool) -> AbstractContextManager[Any]:
    """Where the launch is made."""
    import pypto

    if interpret:
        return pypto.interpreter()
    return pypto.device(device) if device else nullcontext()


def checks(wanted: bool) -> AbstractContextManager[Any]:
    """Whether kernels are compiled with checks."""
    import pypto

    return pypto.checked() if wanted else nullcontext()


def texts(launch: Launch, wanted: Any, level: str) -> Iterator[Any]:
    """What is asked for beside the launch itself."""
    if "time" in wanted:
        yield timed(launch)
    if not wanted & {"inspect", "level", "explain"}:
        return
    launch = launch.chosen
    if "inspect" in wanted:
        other = wanted & {"interpret", "checked", "target"}  # kernels that are not those to be timed
        timed_lines = {} if other else {"profile": profiled(launch)}
        yield launch.kernel.inspect(*launch.args, **launch.given, **timed_lines)
    if "level" in wanted:
        inspection = launch.kernel.inspect(*launch.args, **launch.given)
        names = [known.name for known in inspection.levels]
        if level not in names:
            raise MagicUsage(f"there is no level {level}{suggestion(level, names)}; there are {', '.join(names)}")
        yield inspection[level]
    if "explain" in wanted:
        from pypto.debug.explain import explain

        yield explain(launch.kernel, *launch.args, **launch.given)


def verified(launch: Launch) -> Any:
    from pypto.debug.verify import verify

    if hasattr(launch.kernel, "winner"):
        launch()  # so that it is known what is chosen
        launch = launch.chosen
    verifier = verify(launch.kernel)
    return launch.at_its_line(lambda: verifier[launch.grid](*launch.args, **launch.given))


def timed(launch: Launch) -> str:
    """Times of launches, in a sentence; the arrays are put back."""
    from pypto.testing import do_bench, quantile
    from pypto.tuning.snapshot import is_array

    call: Callable[[], Any] = launch
    if hasattr(launch.kernel, "bind"):
        call = launch.kernel.bind(*launch.args, grid=launch.grid, **launch.given)
    with unchanged(launch):
        call()  # from the second one on, launches are alike
        times = sorted(do_bench(call, rep=200, return_mode="all"))
    size = sum(x.nbytes for x in launch.named.values() if is_array(x))
    speed = f"; arguments of {size / 1e6:.3g} MB, at the least time {size / times[0] / 1e6:.3g} GB/s" if size else ""
    at = ", ".join(f"{what} {1e3 * t:.4g} µs" for what, t in (("least", times[0]), ("median", quantile(times, 0.5))))
    return f"{len(times)} launches: {at}, 90 % {1e3 * quantile(times, 0.9):.4g} µs{speed}"


def display(shown: Any) -> None:
    """Show one thing: a page where it has one, else its text."""
    if shown is None:
        return
    if hasattr(shown, "_repr_html_"):
        importlib.import_module("IPython.display").display(shown)
    else:
        print(shown)
