"""What can be wrong with a launch. All of it is found before any memory is written."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, OptionError, PyptoWarning
from pypto.errors.examples import bodies, launches, programs


class WrongArguments(Diagnostic, TypeError):
    code = "E301"
    template = "{kernel}: {problem}"
    hint = "{way}"
    example = launches("f[(1,)](x, y)", "f[(1,)](x, y, 2)")


class UnsupportedArgument(Diagnostic, TypeError):
    code = "E302"
    template = "{kernel}: argument `{arg}` is {got}"
    hint = "{way}"
    example = launches("f[(1,)](x, y, 'two')", "f[(1,)](x, y, 2)")


class NotPickled(Diagnostic, TypeError):
    code = "E395"
    template = "{what} cannot be pickled: {problem}"
    hint = "define it at the head of a module, as functions that are pickled are; or pickle with cloudpickle"
    example = programs(
        """
        import pickle

        def made():
            @pto.jit
            def f(x, y):
                y[:] = x[:]

            return f

        pickle.dumps(made())
        """,
        """
        import copy

        def made():
            @pto.jit
            def f(x, y):
                y[:] = x[:]

            return f

        copy.deepcopy(made())
        """,
    )


class ReadOnlyArgument(Diagnostic, TypeError):
    code = "E303"
    template = "{kernel} writes to `{arg}`, which is read-only"
    hint = "make `{arg}` writable before the call; the result is in what you pass, so keep a copy if you pass one"
    example = launches("f[(1,)](x, np.broadcast_to(y[:1], 8), 2)", "f[(1,)](x, y, 2)")


class RepeatedArgument(Diagnostic, ValueError):
    code = "E318"
    template = "{kernel} writes to `{arg}`, whose {size} elements along axis {axis} are one in memory: its stride is 0"
    hint = "pass an array with memory for each element: `np.copy({arg})`, or `{arg}.contiguous()` of a tensor"
    example = launches("one = np.lib.stride_tricks.as_strided(y, (8,), (0,))\nf[(1,)](x, one, 2)", "f[(1,)](x, y, 2)")


class RecordedArgument(Diagnostic, RuntimeError):
    code = "E315"
    template = "{kernel} writes to `{arg}`, a tensor that requires grad, and autograd cannot differentiate that"
    hint = "launch under `torch.no_grad()` or in a torch.autograd.Function, or pass `{arg}.detach()`"
    example = launches(
        "import torch\n\nt = torch.zeros(8, requires_grad=True)\nf[(1,)](x, t, 2)",
        "import torch\n\nt = torch.zeros(8, requires_grad=True)\nf[(1,)](x, t.detach(), 2)",
    )


class TracedLaunch(Diagnostic, RuntimeError):
    code = "E316"
    template = "{kernel} cannot be launched in a graph of torch.compile: {problem}"
    hint = "launch it outside of the compiled function, or under `torch.compiler.disable`"
    example = launches(
        "import torch\nfrom pypto.torch.graph.tracing import planned\n\n"
        "tensor = 'tensor', torch.complex64, 1\nplanned(f, 'x', *tensor, 'y', *tensor, 'n', *tensor)",
        "import torch\n\ng = torch.compiler.disable(f[(1,)])\ng(torch.ones(8), torch.zeros(8), 2)",
    )


class UnknownLaunch(Diagnostic, RuntimeError):
    code = "E319"
    template = "the graph launches the kernel `{kernel}` of module `{module}`, {problem}"
    hint = "{way}"
    example = launches(
        "import torch\nimport pypto.torch\n\n"
        "torch.ops.pypto.launch('kernels:swish:0', '[]', [1], [], [], [torch.zeros(8)], [])",
        "import torch\nimport pypto.torch\n\n"
        "@torch.compile(backend='eager')\ndef g(x, y):\n    f[(1,)](x, y, 2)\n\ng(torch.ones(8), torch.zeros(8))",
    )


class UndispatchedLaunch(Diagnostic, RuntimeError):
    code = "E320"
    template = "{kernel} cannot be launched on tensors while the mode {mode} of torch is active: {problem}"
    hint = "{way}; or launch it outside of the mode"
    example = launches(
        "import torch\nfrom torch.utils.flop_counter import FlopCounterMode\n\n"
        "with FlopCounterMode(display=False):\n    f[(1,)]((1, 2), torch.zeros(8), 2)",
        "import torch\nfrom torch.utils.flop_counter import FlopCounterMode\n\n"
        "with FlopCounterMode(display=False):\n    f[(1,)](torch.ones(8), torch.zeros(8), 2)",
    )


class UntransformedOperator(Diagnostic, RuntimeError):
    code = "E324"
    template = "{kernel} cannot be {how}"
    hint = "{way}"
    example = launches(
        "import torch, pypto.torch\n\n"
        "import warnings\n\nwarnings.simplefilter('ignore')  # of torch.func.jvp itself\n"
        "g = pypto.torch.op(f, grid=1, outputs={'y': 'x'})\n"
        "torch.func.jvp(lambda x: g(x, 2), (torch.ones(8),), (torch.ones(8),))",
        "import torch, pypto.torch\n\n"
        "g = pypto.torch.op(f, grid=1, outputs={'y': 'x'})\n"
        "torch.func.vjp(lambda x: g(x, 2), torch.ones(8))",
    )


class OperatorName(Diagnostic, ValueError):
    code = "E326"
    template = "{operator} cannot be the name of an operator of torch: {problem}"
    hint = "{way}"
    example = launches(
        "import pypto.torch\n\npypto.torch.op(f, grid=1, outputs={'y': 'x'}, name='twice')",
        "import pypto.torch\n\npypto.torch.op(f, grid=1, outputs={'y': 'x'}, name='my_ops::twice')",
    )


class WrongGrid(Diagnostic, ValueError):
    code = "E304"
    template = "{kernel}: the grid {grid} is not usable: {problem}"
    hint = (
        "a grid is 1 to 3 whole numbers of 0 or more, or a function of the arguments by name that gives them, "
        "for instance `lambda meta: (pto.cdiv(n, meta['BLOCK']),)`"
    )
    example = launches("f[(8 / 4,)](x, y, 2)", "f[(8 // 4,)](x, y, 2)")


class TooLarge(Diagnostic, OverflowError):
    code = "E305"
    template = "{kernel}: {arg} = {value} does not fit into 64 bits"
    example = launches("f[(1,)](x, y, 2**64)", "f[(1,)](x, y, 2**60)")


class NeedsShape(Diagnostic, TypeError):
    code = "E306"
    template = "{kernel}: a tile's extent depends on dimension {dim} of `{arg}`, which is annotated `pto.dynamic`"
    hint = "remove the annotation, or give the extent as a constexpr argument"
    example = programs(
        """
        @pto.jit
        def f(x: pto.dynamic, y):
            y[0] = pto.sum(x[:])

        f[(1,)](x, y)
        """,
        """
        @pto.jit
        def f(x: pto.dynamic, y, N: pto.constexpr):
            y[0] = pto.sum(x[0:N])

        f[(1,)](x, y, N=8)
        """,
    )


class NotLaunched(Diagnostic, TypeError):
    code = "E307"
    template = "{kernel} is a kernel and is launched over a grid"
    hint = "write {kernel}[grid](...), for instance {kernel}[(16,)](...)"
    example = launches("f(x, y, 2)", "f[(1,)](x, y, 2)")


class BusyWaiting(Diagnostic, PyptoWarning):
    code = "E322"
    template = "{kernel}: this loop waits for what another program stores, which may be for ever"
    hint = (
        "each thread runs its programs one after the other, in the order of the grid: a program may wait for one "
        "before it (with an atomic, as in `pto.atomic_add(flag, 0)`: a plain load may be made once only), and never "
        "for one behind it; launch a second kernel for what has to come after all programs"
    )
    example = bodies(
        "if pto.program_id(0) == 0:\n    while pto.atomic_add(y, 0.0) < 1:\n        pass\n"
        "else:\n    pto.atomic_add(y, 1.0)",
        "if pto.program_id(0) == 0:\n    pto.atomic_add(y, 1.0)",
        "f[(2,)](x, y, 8)",
    )


class WrongDecorator(Diagnostic, TypeError):
    code = "E308"
    template = "{decorator} is given {given}, and takes {wanted}"
    hint = "{way}"
    example = programs(
        """
        @pto.jit
        @pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})])
        def f(x, BLOCK: pto.constexpr):
            x[0:8] = 1
        """,
        """
        @pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})])
        @pto.jit
        def f(x, BLOCK: pto.constexpr):
            x[0:8] = 1
        """,
    )


class WrongOption(Diagnostic, OptionError, TypeError):
    code = "E309"
    template = "{function} {problem}"
    hint = "{way}"
    example = programs(
        """
        @pto.jit(fastmath=True)
        def f(x, y):
            y[:] = x[:]
        """,
        """
        @pto.jit(fast_math=True)
        def f(x, y):
            y[:] = x[:]
        """,
    )


class WrongBlocking(Diagnostic, OptionError):
    code = "E311"
    template = "`pto.Blocking({field}={value!r})` cannot be: {problem}"
    hint = "{way}"
    example = programs(
        """
        @pto.jit(blocking=pto.Blocking(k_unroll=3))
        def f(a, b, c):
            c[:, :] = pto.dot(a[:, :], b[:, :])
        """,
        """
        @pto.jit(blocking=pto.Blocking(k_unroll=2))
        def f(a, b, c):
            c[:, :] = pto.dot(a[:, :], b[:, :])
        """,
    )


class WrongPass(Diagnostic, OptionError, ValueError):
    code = "E317"
    template = "{decorator} cannot switch off {name}: {problem}"
    hint = "{way}"
    example = programs(
        """
        @pto.jit(disable=("peel",))
        def f(x, y):
            y[:] = x[:]
        """,
        """
        @pto.jit(disable=("peeling",))
        def f(x, y):
            y[:] = x[:]
        """,
    )


class WrongConfiguration(Diagnostic, ValueError):
    code = "E310"
    template = "{kernel}: {problem}"
    hint = "{way}"
    example = programs(
        """
        @pto.autotune([{"BLOCK": 4}, {"BLOCK": 8}])
        @pto.jit
        def f(x, BLOCK: pto.constexpr):
            x[0:8] = 1
        """,
        """
        @pto.autotune([pto.Config({"BLOCK": 4}), pto.Config({"BLOCK": 8})])
        @pto.jit
        def f(x, BLOCK: pto.constexpr):
            x[0:8] = 1
        """,
    )
