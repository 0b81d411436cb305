"""What every trial of a public kernel needs: a place for it, and comparisons with references in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.compat.sources import Repository

FLA = Repository("fla-org/flash-linear-attention", "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89", "fla", "fla")
LIGER = Repository(
    "linkedin/Liger-Kernel", "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c", "liger_kernel", "src/liger_kernel"
)
UNSLOTH = Repository("unslothai/unsloth", "015bdef0d94a241bcd94eec7a405b1700632180d", "unsloth", "unsloth")
GEMS = Repository("FlagOpen/FlagGems", "532ff438c70343d7aec9becdabb76a71225a0553", "flag_gems", "src/flag_gems")
ATTORCH = Repository("BobMcDear/attorch", "67c2772baf33913ef51c2d1064f746ca17b63749", "attorch", "attorch")
LIGHTLLM = Repository("ModelTC/lightllm", "fc72ffab9a3455cfb571f22d45ab777cc29de0de", "lightllm", "lightllm")
MAMBA = Repository("state-spaces/mamba", "e9594ce1c732d97440f0332fdc43170a2294dbfa", "mamba_ssm", "mamba_ssm")
XFORMERS = Repository("facebookresearch/xformers", "ca6d2aa0d43241fc8a8dcd872debc2406160160d", "xformers", "xformers")
KERNL = Repository("ELS-RD/kernl", "91e2cd92db44d503874d39a9f6dec42c9f481a8e", "kernl", "src/kernl")
SAGE = Repository("thu-ml/SageAttention", "d1a57a546c3d395b1ffcbeecc66d81db76f3b4b5", "sageattention", "sageattention")
DEEPSEEK = Repository("deepseek-ai/DeepSeek-V3", "9b4e9788e4a3a731f7567338ed15d3ec549ce03b", "inference", "inference")
GEMLITE = Repository("mobiusml/gemlite", "1a6815d06373ed3a276d6726026a6ce15ea4ed71", "gemlite", "gemlite")
SGLANG = Repository("sgl-project/sglang", "v0.4.6.post1", "sglang", "python/sglang")
# Packages of Hugging Face's hub have a folder each.
HUB = {
    package: Repository(
        "huggingface/kernels-community",
        "40d4194f48b6775c4be4776ed08035fabb0e758f",
        package,
        f"{package.replace('_', '-')}/torch-ext/{package}",
    )
    for package in ("fp8_fbgemm", "scattermoe", "vllm_moe", "sage_attention", "trimul_gpumode")
}
REPOSITORIES = (
    *(FLA, LIGER, UNSLOTH, GEMS, ATTORCH, LIGHTLLM, MAMBA, XFORMERS, KERNL, SAGE, DEEPSEEK, GEMLITE, SGLANG),
    *HUB.values(),
)


@dataclass(frozen=True)
class Trial:
    """Kernels of one file, run by `check`, which gets the file's module."""

    repository: Repository
    path: str
    check: Callable[[Any], None]

    @property
    def name(self) -> str:
        return f"{self.repository.package}/{self.path.removesuffix('.py')}:{self.check.__name__}"


def trial(repository: Repository, path: str) -> Callable[[Callable[[Any], None]], Trial]:
    """Decorator of a function that calls kernels of a file and compares what they give."""
    return lambda check: Trial(repository, path, check)


def close(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    """Whether the greatest error is small against the greatest value."""
    found, wanted = found.detach().double(), wanted.detach().double()
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    assert torch.equal(found.isnan(), wanted.isnan())
    error = (found - wanted).nan_to_num().abs().max().item() if found.numel() else 0.0
    size = wanted.nan_to_num().abs().max().item() if found.numel() else 1.0
    assert error <= tolerance * max(1.0, size), f"error {error} where values reach {size}"


def gradients(function: Any, reference: Any, *inputs: Any, tolerance: float = 1e-4) -> None:
    """Results and gradients of a function against those of a reference in float64."""
    ours = [x.clone().requires_grad_(True) for x in inputs]
    theirs = [x.double().clone().requires_grad_(True) for x in inputs]
    found, wanted = function(*ours), reference(*theirs)
    close(found, wanted, tolerance)
    slope = torch.randn_like(found)
    found.backward(slope)
    wanted.backward(slope.double())
    for x, y in zip(ours, theirs, strict=True):
        if y.grad is not None:
            close(x.grad, y.grad, tolerance)


def rms(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def attention(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    """softmax(q k^T) v of (…, length, features) in float64."""
    scores = q.double() @ k.double().transpose(-1, -2) * scale
    if causal:
        rows, columns = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows), -torch.inf)
    return scores.softmax(-1) @ v.double()


def cdiv(x: int, y: int) -> int:
    return -(-x // y)
