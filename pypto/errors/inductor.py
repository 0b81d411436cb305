"""What can be wrong with torch.compile's backends `pypto` and `pypto-inductor`."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import Example

_CONTRACT = "from pypto.torch.inductor.contract import Need, check\n\n"
_TEMPLATES = "from pypto.torch.inductor.templates import FAILED, ours\n\n"
_STRICT = "import torch\n\nstrict = {'strict': True}\n"
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
    template = "{backend} cannot be given {setting}: {problem}"
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


class RunByTorch(Diagnostic, NotImplementedError):
    code = "E325"
    template = "operations of this graph have no kernel: {listed}"
    hint = "leave out `strict`, and torch runs them between kernels"
    example = Example(
        _STRICT + "torch.compile(torch.fft.fft, backend='pypto', options=strict)(torch.ones(4))\n",
        _STRICT + "torch.compile(torch.exp, backend='pypto', options=strict)(torch.ones(4))\n",
    )


class WrongDevice(Diagnostic, ValueError):
    code = "E399"
    template = "the backend `pypto` compiles for the CPU, and a tensor is on {device}"
    hint = 'move the model and its inputs with `.to("cpu")`, or compile it with another backend'
    example = Example(
        "import torch\n\nfast = torch.compile(torch.exp, backend='pypto')\nfast(torch.ones(4, device='meta'))\n",
        "import torch\n\nfast = torch.compile(torch.exp, backend='pypto')\nfast(torch.ones(4))\n",
    )


class TooLittleMemory(Diagnostic, MemoryError):
    code = "E369"
    template = "a step of {model} with one sample takes {needed}, and {memory} is the limit"
    hint = "`pypto.torch.step_memory` shows what takes it; `largest_batch` finds batches of one sample and more"
    example = Example(
        "import pypto.torch, torch\n\npypto.torch.largest_batch(torch.nn.Linear(8, 8), torch.ones(1, 8), memory=100)\n",
        "import pypto.torch, torch\n\npypto.torch.largest_batch(torch.nn.Linear(8, 8), torch.ones(1, 8), memory=500)\n",
    )
