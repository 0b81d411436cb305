"""What can be wrong with torch.compile's backend `pypto-inductor`."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import Example

_CONTRACT = "from pypto.torch.inductor.contract import Need, check\n\n"
_TEMPLATES = "from pypto.torch.inductor.templates import FAILED, ours\n\n"
_SETTINGS = "from pypto.torch.inductor.backend import settings\n\n"


class ChangedInside(Diagnostic, ImportError):
    code = "E351"
    template = "pypto-inductor does not know the inside of torch {version}: {problem}"
    hint = 'install torch 2.12 or 2.13, with which it is tested; launches and `backend="inductor"` work with this one'
    example = Example(
        f"{_CONTRACT}check((Need('torch._inductor.config', 'no_such_name', 'is missing'),))\n",
        f"{_CONTRACT}check((Need('torch._inductor.config', 'cpu_backend', 'is there'),))\n",
    )


class WrongSetting(Diagnostic, ValueError):
    code = "E352"
    template = "pypto-inductor cannot be given {setting}: {problem}"
    hint = "leave it out"
    example = Example(
        f"{_SETTINGS}settings({{'cpu_backend': 'cpp'}}, None)\n",
        f"{_SETTINGS}settings({{'combo_kernels': True}}, None)\n",
    )


class NoTemplate(Diagnostic, RuntimeError):
    code = "E353"
    template = "no template of Inductor that was asked for can be compiled: {problem}"
    hint = 'have the function of ATen beside them: options={{"max_autotune_gemm_backends": "ATEN,TRITON"}}'
    example = Example(
        _TEMPLATES + "with ours():\n    FAILED.get().append('E999')\n    raise RuntimeError('NoValidChoicesError')\n",
        _TEMPLATES + "with ours():\n    FAILED.get().append('E999')\n",
    )


class WrongBackend(Diagnostic, ValueError):
    code = "E325"
    template = "torch.compile has no backend `pypto` of this version"
    hint = 'write torch.compile(model, backend="pypto-inductor")'
    example = Example(
        "from pypto.torch.inductor.backend import pypto\n\npypto(None, [])\n",
        "from pypto.torch.inductor.backend import pypto_inductor\n\npypto_inductor.__name__\n",
    )


class TooLittleMemory(Diagnostic, MemoryError):
    code = "E369"
    template = "a step of {model} with one sample takes {needed}, and {memory} is the limit"
    hint = "`pypto.torch.step_memory` shows what takes it; `largest_batch` finds batches of one sample and more"
    example = Example(
        "import pypto.torch, torch\n\npypto.torch.largest_batch(torch.nn.Linear(8, 8), torch.ones(1, 8), memory=100)\n",
        "import pypto.torch, torch\n\npypto.torch.largest_batch(torch.nn.Linear(8, 8), torch.ones(1, 8), memory=500)\n",
    )
