# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · A compiled transformer block
#
# `torch.compile` fuses what lies between the matrix products of a model. With the backend `pypto-inductor` the fused
# kernels are pypto's, so no C++ compiler is needed, and each of them can be looked at.
#
# ```text
#     x ──norm──> qkv ──> attention ──> out ──add, norm──> up ──GELU──> down ──add──> y
#        kernel    torch    torch       torch   kernel    torch  kernel  torch  kernel
# ```
#
# The products themselves are those of torch, and so is attention. This tutorial needs `pip install 'pypto-jit[torch]'`.

# %%
from __future__ import annotations

import importlib.util
import sys
import warnings

if importlib.util.find_spec("torch") is None:
    print("torch is not installed, so there is nothing to compile: pip install 'pypto-jit[torch]'")
    sys.exit(0)

# %% [markdown]
# ## The block
#
# A usual block, with its attention written out as products and a softmax. The width is 64, the length 128.

# %%
warnings.simplefilter("ignore")  # torch warns of its own insides

import torch  # noqa: E402
from torch import nn  # noqa: E402

import pypto.torch  # noqa: E402
from pypto.torch.inductor.backend import pypto_inductor  # noqa: E402


class Block(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


torch.manual_seed(0)
block = Block()
x = torch.randn(2, 128, 64)

# %% [markdown]
# ## Compiled
#
# `backend="pypto-inductor"` names the backend wherever pypto is installed; here it is given as the function itself, so
# that this works from a checkout, too. The first call compiles.

# %%
fast = torch.compile(block, backend=pypto_inductor)
with torch.no_grad():
    difference = (fast(x) - block(x)).abs().max()
print(f"largest difference from eager torch: {difference:.1e}")
assert difference < 1e-5

# %% [markdown]
# ## The kernels
#
# `pypto.torch.kernels` lists what the scheduler of torch made of the block. A name says how a kernel runs (`poi`:
# element by element, `per` and `red`: reductions) and which operations of the model were fused into it. There is no
# softmax among them: torch has recognised the attention, and calls its own function for it.

# %%
kernels = pypto.torch.kernels(fast)
for kernel in kernels:
    print(kernel.name)
assert any("add_native_layer_norm" in kernel.name for kernel in kernels)

# %% [markdown]
# Each has its source, which is a Triton kernel. GELU is one of the shortest: a load, the function, a store.

# %%
gelu = next(kernel for kernel in kernels if "gelu" in kernel.name)
print(gelu.source[gelu.source.index("@triton.jit") :])

# %% [markdown]
# ## What the compiler made of it
#
# `kernel.kernel` is a kernel as any other: it can be inspected and explained. Its version was compiled for the dtypes
# and sizes of the model. The block sizes are those that suit a CPU.

# %%
print("blocks:", gelu.blocks)
for version in gelu.kernel.specializations:
    print(version)

# %% [markdown]
# A launch takes tensors and sizes. `inspect` shows all levels of the code for it; here is the loop nest.

# %%
elements = 2 * 128 * 256
hidden = torch.randn(elements)
names = gelu.kernel.arg_names
given = [gelu.blocks.get(name, elements if name.endswith("numel") else hidden) for name in names]
found = gelu.kernel.inspect(*given)
print(found["loop-ir"])

# %% [markdown]
# ## Training
#
# The backward pass is compiled when it first runs, and its kernels come behind those of the forward pass.

# %%
target = torch.randn_like(x)
for parameter in block.parameters():
    parameter.grad = None
nn.functional.mse_loss(fast(x), target).backward()
gradients = [parameter.grad.clone() for parameter in block.parameters()]
block.zero_grad()
nn.functional.mse_loss(block(x), target).backward()
worst = max((mine - p.grad).abs().max() for mine, p in zip(gradients, block.parameters(), strict=True))
print(f"largest difference of a gradient: {worst:.1e}")
assert worst < 1e-5
backward = [kernel.name for kernel in pypto.torch.kernels(fast) if "backward" in kernel.name]
print(f"kernels of the backward pass: {len(backward)}")
assert backward

# %% [markdown]
# ## Exercises
#
# 1. Compile with ``dynamic=True``, and call the block with lengths 128 and 200. How many kernels are listed after each?
# 2. Add a bias to the scores that is larger for near places. Is the softmax a kernel now?
# 3. Convert the block and its input to bfloat16. What does `gelu.source` convert, and where?
