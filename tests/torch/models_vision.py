"""Models of images, graphs and sequences, losses and an optimizer's step, in plain torch and of small sizes."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.torch.models_language import Block


def image(channels=3, size=16, batch=2):
    return torch.randn(batch, channels, size, size)


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, inside, out, stride=1):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.short = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet():
    stem = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    blocks = (Residual(a, b, stride) for a, b, stride in ((8, 8, 1), (8, 16, 2), (16, 32, 2), (32, 64, 2)))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Inverted(nn.Module):
    """MobileNet's block: wide, by channel, narrow."""

    def __init__(self, width, out, stride):
        super().__init__()
        wide = 4 * width
        self.same = stride == 1 and width == out
        self.layers = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
            nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x):
        return x + self.layers(x) if self.same else self.layers(x)


def mobilenet():
    stem = nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish()
    blocks = Inverted(8, 8, 1), Inverted(8, 16, 2)
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.LeakyReLU())
        self.deep = nn.Sequential(nn.Conv2d(width, 2 * width, 3, padding=1), nn.InstanceNorm2d(2 * width), nn.ELU())
        self.up, self.out = nn.ConvTranspose2d(2 * width, width, 2, 2), nn.Conv2d(2 * width, 2, 3, padding=1)

    def forward(self, x):
        near = self.down(x)
        far = self.up(self.deep(F.avg_pool2d(near, 2)))
        wide = F.interpolate(far, scale_factor=1.0, mode="nearest")
        return self.out(torch.cat((near, wide), 1))


class ConvNeXt(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem, self.by_channel = nn.Conv2d(3, width, 4, 4), nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.scale = nn.LayerNorm(width), nn.Parameter(torch.full((width,), 0.5))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = self.stem(x)
        y = self.mlp(self.norm(self.by_channel(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


class ViT(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.randn(1, 1, width))
        self.places, self.block = nn.Parameter(torch.randn(1, 17, width)), Block(width, 4, nn.GELU(), False)
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.out(self.block(x)[:, 0])


class Diffusion(nn.Module):
    """A block of a diffusion model's UNet: norms over groups, the time, attention over the pixels."""

    def __init__(self, width=16):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(4, width) for _ in range(3))
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.time, self.attention = nn.Linear(width, width), nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, x, t):
        rates = torch.exp(-torch.arange(x.shape[1] // 2) * 0.5)
        angle = t[:, None] * rates
        time = self.time(F.silu(torch.cat((angle.sin(), angle.cos()), -1)))
        y = self.conv1(F.silu(self.norm1(x))) + time[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(y)))
        pixels = self.norm3(x).flatten(2).transpose(1, 2)
        seen = self.attention(pixels, pixels, pixels, need_weights=False)[0]
        return x + seen.transpose(1, 2).unflatten(2, x.shape[2:])


class Shifted(nn.Module):
    """Swin's: attention within windows of an image whose places are shifted."""

    def __init__(self, width=16, side=4):
        super().__init__()
        self.side, self.norm, self.block = side, nn.LayerNorm(width), Block(width, 2, nn.GELU(), False)

    def forward(self, x):
        batch, height, width, _ = x.shape
        y = torch.roll(self.norm(x), (-1, -1), (1, 2))
        y = y.unflatten(1, (-1, self.side)).unflatten(3, (-1, self.side)).transpose(2, 3)
        y = self.block(y.reshape(-1, self.side**2, x.shape[-1]))
        y = y.view(batch, height // self.side, width // self.side, self.side, self.side, -1).transpose(2, 3)
        return x + torch.roll(y.reshape(x.shape), (1, 1), (1, 2))


class Excited(nn.Module):
    """EfficientNet's block: each channel has a weight that follows from all of the image."""

    def __init__(self, width=16):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.BatchNorm2d(width)
        self.narrow, self.wide = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        y = F.silu(self.norm(self.conv(x)))
        weight = torch.sigmoid(self.wide(F.silu(self.narrow(y.mean((2, 3), keepdim=True)))))
        return x + y * weight


class Recurrent(nn.Module):
    """An LSTM whose steps are in the graph."""

    def __init__(self, width=16):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(8, width), nn.Linear(width, 4)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], self.cell.hidden_size)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.out(h)


class Graph(nn.Module):
    """Messages along edges, added and the greatest of them at the nodes."""

    def __init__(self, width=8):
        super().__init__()
        self.message, self.out = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x, edges):
        sent = F.relu(self.message(torch.cat((x[edges[0]], x[edges[1]]), -1)))
        total = torch.zeros_like(x).index_add(0, edges[1], sent)
        index = edges[1][:, None].expand_as(sent)
        most = torch.zeros_like(x).scatter_reduce(0, index, sent, "amax", include_self=True)
        return self.out(torch.cat((total, most), -1))


class Losses(nn.Module):
    def forward(self, scores, wanted, values):
        chance = F.log_softmax(scores, -1)
        return torch.stack((
            F.cross_entropy(scores, wanted, label_smoothing=0.1), F.nll_loss(chance, wanted),
            F.mse_loss(scores, values), F.smooth_l1_loss(scores, values), F.huber_loss(scores, values),
            F.binary_cross_entropy_with_logits(scores, values.sigmoid()),
            F.kl_div(chance, values.softmax(-1), reduction="batchmean"),
            1 - F.cosine_similarity(scores, values).mean(),
        ))  # fmt: skip


def mlp():
    layers = nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10), nn.Softmax(-1)
    return nn.Sequential(*layers)


MODELS = {
    "mlp": lambda: (mlp(), (torch.randn(5, 16),)),
    "lstm": lambda: (Recurrent(), (torch.randn(3, 5, 8),)),
    "resnet": lambda: (resnet(), (image(size=64),)),
    "mobilenet": lambda: (mobilenet(), (image(size=32),)),
    "mobilenet channels_last": lambda: (
        mobilenet().to(memory_format=torch.channels_last),
        (image(size=32).to(memory_format=torch.channels_last),),
    ),
    "unet": lambda: (UNet(), (image(),)),
    "convnext": lambda: (ConvNeXt(), (image(),)),
    "vit": lambda: (ViT(), (image(),)),
    "diffusion": lambda: (Diffusion(), (image(16, 8), torch.tensor([3.0, 70.0]))),
    "graph": lambda: (Graph(), (torch.randn(20, 8), torch.randint(0, 20, (2, 50)))),
    "swin": lambda: (Shifted(), (torch.randn(2, 8, 8, 16),)),
    "efficientnet": lambda: (Excited(), (image(16, 8),)),
    "losses": lambda: (Losses(), (torch.randn(6, 9), torch.randint(0, 9, (6,)), torch.randn(6, 9))),
}
