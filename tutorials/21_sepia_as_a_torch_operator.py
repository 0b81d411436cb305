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
# # 21 · Sepia as an operator of torch
#
# A filter for pictures, from its formula to an operator that torch knows: with a backward, under `torch.compile`, and
# checked by torch's own tools. Each tone of the result is a weighted sum of red, green and blue, held between 0 and 1.
#
# ```text
#     R' = 0.393 R + 0.769 G + 0.189 B             forward     y  = clamp(M x, 0, 1)
#     G' = 0.349 R + 0.686 G + 0.168 B             backward    dx = Mᵀ (dy where 0 <= M x <= 1, else 0)
#     B' = 0.272 R + 0.534 G + 0.131 B
# ```
#
# This tutorial needs torch: `pip install pypto-jit[torch]`.

# %%
from __future__ import annotations

import numpy as np
import torch
from clock import best_seconds

import pypto as pto
import pypto.torch

TONES = ((0.393, 0.769, 0.189), (0.349, 0.686, 0.168), (0.272, 0.534, 0.131))

# %% [markdown]
# ## The kernel
#
# A program has `BLOCK` pixels of one picture. It reads each colour once and writes each tone once: 24 bytes for a pixel
# of float32, and that is the least there is. Three operators of torch would write the sums and read them again.


# %%
@pto.jit
def sepia_kernel(x, y, BLOCK: pto.constexpr = 4096):
    n, i = pto.program_id(0), pto.program_id(1) * BLOCK
    r, g, b = x[n, 0, i : i + BLOCK], x[n, 1, i : i + BLOCK], x[n, 2, i : i + BLOCK]
    for c in pto.static_range(3):
        total = r * TONES[c][0] + g * TONES[c][1] + b * TONES[c][2]
        y[n, c, i : i + BLOCK] = pto.clamp(total, 0.0, 1.0)


# %% [markdown]
# ## The operator
#
# `pypto.torch.op` registers the kernel under a name. It allocates what the kernel stores, and derives the backward from
# the kernel, so none is written by hand, and none can be forgotten when the formula changes.

# %%
sepia_of_planes = pypto.torch.op(
    sepia_kernel,
    grid=lambda args: (args["x"].shape[0], pto.cdiv(args["x"].shape[2], args["BLOCK"])),
    outputs={"y": "x"},
    name="tutorial::sepia",
)


def sepia(pictures):
    """Tones of brown of pictures (n, 3, height, width)."""
    if pictures.ndim != 4 or pictures.shape[1] != 3:
        raise ValueError(f"sepia takes pictures (n, 3, height, width), and got {tuple(pictures.shape)}")
    return sepia_of_planes(pictures.flatten(2)).reshape(pictures.shape)


class Sepia(torch.nn.Module):
    def forward(self, pictures):
        return sepia(pictures)


# %% [markdown]
# The reference is the formula in torch's own operators. `einsum` takes any dtype, so it also says what float64 gives.


# %%
def sepia_of_torch(pictures):
    tones = torch.tensor(TONES, dtype=pictures.dtype)
    return torch.einsum("ck,nkhw->nchw", tones, pictures).clamp(0, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    pictures = torch.rand(4, 3, 60, 70) * 1.3
    largest = (sepia(pictures) - sepia_of_torch(pictures.double())).abs().max()
    print(f"forward: largest difference from torch in float64: {largest:.1e}")
    assert largest < 1e-6
    white = sepia(torch.ones(1, 3, 1, 1)).flatten()
    print("white becomes", [round(float(tone), 3) for tone in white])  # two of the sums are above 1

# %% [markdown]
# A picture of one channel is no picture of three. The kernel would have no green to read, so `sepia` says what it
# takes:

# %%
if __name__ == "__main__":
    try:
        sepia(torch.rand(1, 1, 2, 2))
    except ValueError as error:
        print(error)

# %% [markdown]
# ## The backward
#
# The filter is linear where no sum is cut off, and there the gradient is the transposed map. Where a sum is cut off,
# the result does not move, and the gradient is 0: a backward without that case is wrong for every bright pixel. Some of
# the pictures below are bright enough.

# %%
if __name__ == "__main__":
    gradients = []
    for function in (sepia, sepia_of_torch):
        x = pictures.clone().requires_grad_()
        torch.manual_seed(1)
        (function(x) * torch.rand(pictures.shape)).sum().backward()
        gradients.append(x.grad)
    largest = (gradients[0] - gradients[1]).abs().max()
    cut = float((torch.einsum("ck,nkhw->nchw", torch.tensor(TONES), pictures) > 1).float().mean())
    print(f"backward: largest difference from torch {largest:.1e}; {cut:.0%} of the sums are cut off")
    assert largest < 1e-6
    assert 0.05 < cut < 0.95

# %% [markdown]
# `gradcheck` compares the backward with differences in float64. It needs points at which the function has a derivative,
# so these pictures have no sum near 1.

# %%
if __name__ == "__main__":
    points = torch.rand(2, 3, 3, 5, dtype=torch.float64) * 0.7
    assert torch.autograd.gradcheck(sepia, (points.requires_grad_(),))
    print("gradcheck: the backward is the derivative of the forward")

# %% [markdown]
# The derived kernel is one that you could have written. `explain` shows what it stores:

# %%
if __name__ == "__main__":
    back = pto.adjoint(sepia_kernel, wrt=["x"])
    planes, y = (np.zeros((2, 3, 100), np.float32) for _ in range(2))
    print(back.explain((2, 1), planes, y))

# %% [markdown]
# ## What torch says of the operator
#
# `opcheck` tries what goes wrong with operators of one's own: a schema that does not tell what is written, a fake
# tensor of another shape than the result, a missing gradient, another result when it is traced.

# %%
if __name__ == "__main__":
    operator = torch.ops.tutorial.sepia
    print("schema:", operator.default._schema)
    for kind, outcome in torch.library.opcheck(operator, (pictures.flatten(2).requires_grad_(),)).items():
        print(f"  {kind}: {outcome}")

# %% [markdown]
# ## Under torch.compile
#
# The operator is one node of the graph, forward and backward, for any number and size of pictures. `fullgraph=True`
# makes sure that torch never leaves the graph. The backend here only traces; `inductor` and `pypto-inductor` take the
# same graph.

# %%
if __name__ == "__main__":
    tint = torch.compile(lambda x: Sepia()(x * 0.9).mean(), backend="aot_eager", fullgraph=True, dynamic=True)
    for size in ((2, 3, 8, 8), (3, 3, 5, 9)):
        a, b = (torch.rand(size, generator=torch.Generator().manual_seed(2)).requires_grad_() for _ in range(2))
        tint(a).backward()
        sepia_of_torch(b * 0.9).mean().backward()
        torch.testing.assert_close(a.grad, b.grad)
    print("compiled: gradients of two sizes are equal to torch's")

# %% [markdown]
# ## A picture that learns
#
# With a backward, the filter may stand anywhere in a model. Here it is inverted: from a sepia picture, descend to a
# picture whose sepia it is. Many colours give the same tones, so the found colours are others; the tones are right.

# %%
if __name__ == "__main__":
    wanted = sepia(torch.rand(1, 3, 16, 16) * 0.6)
    guess = torch.full((1, 3, 16, 16), 0.3, requires_grad=True)
    optimizer = torch.optim.Adam([guess], lr=0.02)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = (Sepia()(guess) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.6f}")
    assert losses[-1] < losses[0] / 100

# %% [markdown]
# ## Speed
#
# A call computes a batch, so the pictures in a second are the batch over the time, and the bytes are those of reading
# and writing it once. Both are printed, so that the figures can be compared with the memory of the machine. Both sides
# have one thread.

# %%
if __name__ == "__main__":
    pto.set_num_threads(1)
    torch.set_num_threads(1)
    batch = torch.rand(4, 3, 224, 224)
    with torch.no_grad():
        seconds = best_seconds({"pypto": lambda: sepia(batch), "torch": lambda: sepia_of_torch(batch)})
    moved = 2 * batch.numel() * batch.element_size()
    for name, took in seconds.items():
        print(f"{name}: {took * 1e3:.3f} ms, {len(batch) / took:.0f} pictures/s, {moved / took / 1e9:.1f} GB/s")
    print(f"pypto is {seconds['torch'] / seconds['pypto']:.2f} times as fast")

# %% [markdown]
# ## Exercise
#
# 1. Write `strength` into the kernel: `y = strength * sepia + (1 - strength) * x`. What has `op` to be told? Which
#    gradients does it derive?
# 2. Take pictures of `uint8`, divide by 255 in the kernel, and store float32. Which inputs have a gradient now?
# 3. `pypto.library` has the filter as `torch.ops.pypto.sepia`. Compare the three: yours, the library's, torch's.
