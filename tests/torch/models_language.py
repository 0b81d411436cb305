"""Models of language, in plain torch and of small sizes: the architectures that people compile."""

# mypy: ignore-errors

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Scores written out, so that softmax and masks are part of the graph."""

    def __init__(self, width, count, causal=False, bias=None):
        super().__init__()
        self.count, self.causal, self.bias = count, causal, bias
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (heads(part, self.count) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        if self.bias is not None:
            scores = scores + self.bias(x.shape[1])
        if self.causal:
            length = x.shape[1]
            above = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(above, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, count, activation, causal, before=True, bias=None):
        super().__init__()
        self.before = before
        self.attention = Attention(width, count, causal, bias)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), activation, nn.Linear(4 * width, width))

    def forward(self, x):
        if self.before:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Transformer(nn.Module):
    """BERT, GPT-2, CLIP's text model: what differs is the order of norms, the mask and the activation."""

    def __init__(self, activation, causal, before, width=32, words=64, most=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(most, width)
        self.blocks = nn.Sequential(*(Block(width, 4, activation, causal, before) for _ in range(2)))
        self.norm, self.causal = nn.LayerNorm(width), causal

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        x = self.norm(self.blocks(x))
        return x @ self.words.weight.T if self.causal else x.mean(1)


class RelativeBias(nn.Module):
    """T5's: distances in buckets, the far ones on a logarithmic scale."""

    def __init__(self, count, buckets=8, most=16):
        super().__init__()
        self.buckets, self.most, self.table = buckets, most, nn.Embedding(buckets, count)

    def forward(self, length):
        at = torch.arange(length)
        distance = (at[:, None] - at[None, :]).clamp(min=0)
        near = self.buckets // 2
        ratio = torch.log(distance.clamp(min=1) / near) / torch.log(torch.tensor(self.most / near))
        far = (near + (ratio * (self.buckets - near)).long()).clamp(max=self.buckets - 1)
        return self.table(torch.where(distance < near, distance, far)).permute(2, 0, 1)


class T5(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.block = Block(width, 4, nn.ReLU(), False, bias=RelativeBias(4))

    def forward(self, ids):
        return self.block(self.words(ids))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotated(x):
    """Rotary places for x of (batch, heads, length, width)."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, inner), nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Llama(nn.Module):
    """Two blocks with grouped keys, rotary places and a gated MLP, or `mlp` in its place."""

    def __init__(self, width=32, mlp=Gated):
        super().__init__()
        self.words, self.norm, self.norm2 = nn.Embedding(64, width), RMSNorm(width), RMSNorm(width)
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.mlp = mlp(width, 2 * width)

    def forward(self, ids):
        x = self.words(ids)
        y = self.norm(x)
        q, (k, v) = rotated(heads(self.q(y), 4)), (heads(part, 2) for part in self.kv(y).chunk(2, -1))
        k, v = rotated(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return (x + self.mlp(self.norm2(x))) @ self.words.weight.T


class Experts(nn.Module):
    """Mixtral's: each word goes to two of four experts."""

    def __init__(self, width, inner):
        super().__init__()
        self.router = nn.Linear(width, 4)
        self.up = nn.Parameter(torch.randn(4, width, inner) / width**0.5)
        self.down = nn.Parameter(torch.randn(4, inner, width) / inner**0.5)

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        gates = torch.zeros(*x.shape[:-1], 4).scatter(-1, chosen, weights)
        inner = F.silu(torch.einsum("blw,ewi->blei", x, self.up))
        return torch.einsum("blei,eiw,ble->blw", inner, self.down, gates)


class Latent(nn.Module):
    """DeepSeek's attention: keys and values from a narrow latent, with a rotary part that all heads share."""

    def __init__(self, width=32, count=4, latent=8, rotary=4):
        super().__init__()
        self.count, self.rotary = count, rotary
        self.q = nn.Linear(width, count * (width // count + rotary))
        self.down, self.norm = nn.Linear(width, latent + rotary), RMSNorm(latent)
        self.up, self.out = nn.Linear(latent, 2 * width), nn.Linear(width, width)

    def forward(self, x):
        q = heads(self.q(x), self.count)
        latent, shared = self.down(x).split((self.down.out_features - self.rotary, self.rotary), -1)
        k, v = (heads(part, self.count) for part in self.up(self.norm(latent)).chunk(2, -1))
        q = torch.cat((q[..., : -self.rotary], rotated(q[..., -self.rotary :])), -1)
        k = torch.cat((k, rotated(shared[:, None]).expand(-1, self.count, -1, -1)), -1)
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Mamba(nn.Module):
    """A selective scan, in a loop over the length that is unrolled."""

    def __init__(self, width=16, state=4):
        super().__init__()
        self.inside, self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.conv = nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.parameters_of = nn.Linear(width, 2 * state + width)
        self.decay = nn.Parameter(torch.log(torch.arange(1.0, state + 1)).repeat(width, 1))
        self.state = state

    def forward(self, x):
        length = x.shape[1]
        u = F.silu(self.conv(self.inside(x).transpose(1, 2))[..., :length].transpose(1, 2))
        b, c, step = self.parameters_of(u).split((self.state, self.state, u.shape[-1]), -1)
        step = F.softplus(step)
        decay = torch.exp(-step[..., None] * self.decay.exp())
        added = step[..., None] * b[:, :, None] * u[..., None]
        h, out = torch.zeros_like(decay[:, 0]), []
        for t in range(length):
            h = decay[:, t] * h + added[:, t]
            out.append((h * c[:, t, None]).sum(-1))
        return self.out(torch.stack(out, 1) * F.silu(self.gate(x)))


class Whisper(nn.Module):
    """Speech to vectors: two convolutions over time, places as sines, a block of attention."""

    def __init__(self, bands=8, width=32):
        super().__init__()
        self.conv1 = nn.Conv1d(bands, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, 2, 1)
        self.block, self.norm = Block(width, 4, nn.GELU(), False), nn.LayerNorm(width)

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2)
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(half) / (half - 1))
        return self.norm(self.block(x + torch.cat((angle.sin(), angle.cos()), -1).to(x.dtype)))


def ids(length=12):
    return torch.randint(0, 64, (2, length))


MODELS = {
    "bert": lambda: (Transformer(nn.GELU(), False, False), (ids(),)),
    "gpt2": lambda: (Transformer(nn.GELU("tanh"), True, True), (ids(),)),
    "clip text": lambda: (Transformer(QuickGELU(), True, True), (ids(),)),
    "t5": lambda: (T5(), (ids(20),)),
    "llama": lambda: (Llama(), (ids(),)),
    "experts": lambda: (Llama(mlp=Experts), (ids(),)),
    "latent attention": lambda: (Latent(), (torch.randn(2, 12, 32),)),
    "whisper": lambda: (Whisper(), (torch.randn(2, 8, 24),)),
    "mamba": lambda: (Mamba(), (torch.randn(2, 6, 16),)),
}


class Projected(nn.Module):
    """Attention over one projection, with places added."""

    def __init__(self, causal=True):
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.causal = causal

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.project(x).reshape(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return y.transpose(1, 2).reshape(batch, length, 16) + torch.arange(length)[:, None]
