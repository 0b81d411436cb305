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
# # 20 · Convolution, normalisation and relu as one operator
#
# The block of every convolutional network is three modules, and on most devices three kernels. Each writes its result
# to memory, and the next reads it again. This tutorial makes one operator of them, checks it, and puts it into a model.
#
# ```text
#     three operators    x --conv--> memory --normalise--> memory --relu--> y      3 reads, 3 writes
#     one operator       x --conv, times gain, plus bias, relu in registers--> y   1 read, 1 write
# ```
#
# This tutorial needs torch: `pip install pypto-jit[torch]`.

# %%
from __future__ import annotations

import torch
from clock import best_seconds
from torch import nn

import pypto as pto
import pypto.torch

# %% [markdown]
# ## What the block computes
#
# In training, batch normalisation divides by the variance of the batch: a result depends on all pictures of the batch,
# and no kernel can normalise a pixel as soon as it has it. In inference (`eval`), mean and variance are constants, and
# the normalisation is an affine map, whose two numbers for each channel hold all four of the module.


# %%
class Block(nn.Module):
    """The three modules."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)))


def affine(bn):
    """Gain and bias of a normalisation in inference."""
    gain = bn.weight / torch.sqrt(bn.running_var + bn.eps)
    return gain, bn.bias - bn.running_mean * gain


# %% [markdown]
# A block that has seen some batches, so that its means and variances are not 0 and 1, and an error in `affine` shows:

# %%
torch.manual_seed(0)


def trained(inputs, outputs):
    block = Block(inputs, outputs)
    nn.init.uniform_(block.bn.weight, 0.5, 1.5)
    nn.init.normal_(block.bn.bias)
    with torch.no_grad():
        for _ in range(20):
            block(torch.randn(8, inputs, 12, 12) * 2 + 1)
    return block.eval()


# %% [markdown]
# ## The operator
#
# `pypto.library` has it as a row: `torch.ops.pypto.conv_bn_relu`. Its kernel multiplies the weights by windows of `x`,
# nine products that are summed in registers, and applies gain, bias and relu before it stores.

# %%
one = torch.ops.pypto.conv_bn_relu


class ConvBnRelu(nn.Module):
    """A block in inference, as one operator."""

    def __init__(self, block):
        super().__init__()
        gain, bias = affine(block.bn)
        weight = block.conv.weight.permute(2, 3, 0, 1)  # rows, columns, outputs, inputs: each product has its matrix
        for name, x in (("weight", weight), ("gain", gain), ("bias", bias)):
            self.register_buffer(name, x.detach().contiguous())

    def forward(self, x):
        return one(x, self.weight, self.gain, self.bias)


if __name__ == "__main__":
    block = trained(16, 24)
    fused = ConvBnRelu(block)
    x = torch.randn(2, 16, 14, 15)
    with torch.no_grad():
        exact = block.double()(x.double())
        found = fused(x)
        apart = (found - exact).abs().max(), (block.float()(x) - exact).abs().max()
    print(f"largest difference from float64: one operator {apart[0]:.1e}, three operators {apart[1]:.1e}")
    assert apart[0] < 1e-5
    assert torch.library.opcheck(one, (x, fused.weight, fused.gain, fused.bias))["test_faketensor"] == "SUCCESS"

# %% [markdown]
# ## Gradients
#
# A block in inference has gradients: by the pictures, which style transfer needs, and by the weights, for fine tuning
# with constant means and variances. The row has a backward, so autograd goes through the operator as through the
# modules. An operator without one would raise an error here, and not cut off the gradient silently.

# %%
if __name__ == "__main__":
    gradients = []
    for function, weight in ((fused, fused.weight.requires_grad_()), (block, block.conv.weight)):
        images = x.clone().requires_grad_()
        function(images).square().sum().backward()
        gradients.append((images.grad, weight.grad))
    (by_images, by_weight), (images_of_three, weight_of_three) = gradients
    torch.testing.assert_close(by_images, images_of_three, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(by_weight, weight_of_three.permute(2, 3, 0, 1), rtol=1e-4, atol=1e-3)
    print("gradients by pictures and weights: equal to those of three operators")

# %% [markdown]
# ## In a model
#
# `fuse_blocks` replaces each block of a model in place. The rest stays as it is, so a model of any shape will do: here
# blocks one after another, a residual connection, a pooling and a classifier.


# %%
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = trained(3, 16), trained(16, 16), trained(16, 32)
        self.classifier = nn.Linear(32, 10)

    def forward(self, x):
        x = self.first(x)
        x = self.third(x + self.second(x))
        return self.classifier(x.mean((2, 3)))


def fuse_blocks(model):
    """Replaces the blocks of a model in inference, and gives their number."""
    if model.training:
        raise ValueError("a block in training depends on its batch; call model.eval() first")
    count = 0
    for name, child in list(model.named_children()):
        if isinstance(child, Block):
            setattr(model, name, ConvBnRelu(child))
            count += 1
        else:
            count += fuse_blocks(child)
    return count


if __name__ == "__main__":
    model, pictures = Network(), torch.randn(4, 3, 32, 32)
    try:
        fuse_blocks(model)
    except ValueError as error:
        print(error)
    model.eval()
    with torch.no_grad():
        before = model(pictures)
        count = fuse_blocks(model)
        after = model(pictures)
    print(f"{count} blocks are replaced; largest difference of the model's results {(after - before).abs().max():.1e}")
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)

# %% [markdown]
# The model can be compiled and exported like any other, for any number of pictures; the operator is one node of the
# graph.

# %%
if __name__ == "__main__":
    with torch.no_grad():
        program = torch.export.export(model, (pictures,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
        names = [str(node.target) for node in program.graph.nodes if "pypto" in str(node.target)]
        print(names)
        torch.testing.assert_close(program.module()(pictures[:3]), model(pictures[:3]))

# %% [markdown]
# ## Speed
#
# A fair comparison has three parties. The eager block is what most models run. *Folded* is what a careful user does
# without any new kernel: the normalisation goes into the weights of the convolution, and two operators are left. The
# one operator has to be measured against that as well. All take turns, on one thread each, and all compute the same.

# %%
if __name__ == "__main__":
    pto.set_num_threads(1)
    torch.set_num_threads(1)
    block = trained(32, 32)
    folded = nn.Sequential(nn.utils.fuse_conv_bn_eval(block.conv, block.bn), nn.ReLU(inplace=True))
    fused = ConvBnRelu(block)
    x = torch.randn(2, 32, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), fused(x), rtol=1e-3, atol=1e-4)
        seconds = best_seconds({
            "one operator": lambda: fused(x), "three operators": lambda: block(x), "folded": lambda: folded(x)
        })  # fmt: skip
    operations = 2 * 9 * 32 * 32 * x.shape[0] * 28 * 28
    for name, took in seconds.items():
        ratio = took / seconds["one operator"]
        print(f"{name:<16} {took * 1e3:7.3f} ms {operations / took / 1e9:6.1f} GFLOP/s   {ratio:.2f} of one operator")

# %% [markdown]
# ## Exercise
#
# 1. Leave the relu out of `Block`. Which row of `pypto.library` would you take, and how would you write one?
# 2. Turn off the `eval` in `trained`. At which line do you find out that the operator is not what the block computes?
# 3. Measure the three parties at 64 channels and 56 x 56 pixels, and at one picture. When is folding enough?
