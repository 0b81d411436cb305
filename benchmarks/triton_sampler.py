"""Rows of the suite `triton`: the kernels of vLLM's sampler beside torch's own code for the same step."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.peers import imported
from benchmarks.runner import Bar, Case, Impl, Row
from benchmarks.triton_sources import case, in_double

SHAPES: Final = ((1, 151936), (8, 128256), (32, 32000))  # of a Qwen, a Llama 3 and a Llama 2: requests, words
K, P, MIN_P, TEMPERATURE = 50, 0.9, 0.05, 0.7
REPETITION, FREQUENCY, PRESENCE = 1.1, 0.3, 0.2
WANTED: Final = 20  # log-probabilities of so many words are returned


@functools.cache
def logits(torch: Any, batch: int, words: int) -> Any:
    return torch.randn(batch, words, generator=torch.Generator().manual_seed(2)) * 3


def module_of(found: Any, path: str) -> Any:
    """A file of vLLM; the rest of the package decides at its import whether there is a GPU."""
    utilities: Any = types.ModuleType("vllm.triton_utils")
    utilities.triton, utilities.tl = imported("triton"), imported("triton.language")
    sys.modules["vllm.triton_utils"] = utilities
    return found.load(found.vllm, path)


def masks(torch: Any, dtype: Any, shape: tuple[int, int], k: int, p: float) -> Any:
    """Logits with all but the likeliest words masked, as vLLM's code without Triton does: p needs a sort."""
    values = logits(torch, *shape).to(dtype)
    if p == 1:
        return values.masked_fill(values < values.topk(k).values[:, -1:], -torch.inf)
    ordered, index = values.sort(-1)
    if k:
        ordered = ordered.masked_fill(ordered < ordered[:, -k, None], -torch.inf)
    masked = ordered.softmax(-1).cumsum(-1) <= 1 - p
    masked[:, -1] = False
    return torch.empty_like(ordered).scatter_(-1, index, ordered.masked_fill(masked, -torch.inf))


def masking(found: Any, shape: tuple[int, int], k: int, p: float) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module = module_of(found, "v1/sample/ops/topk_topp_triton.py")
    (batch, words), values = shape, logits(torch, *shape)
    buffer, fresh = torch.empty(2, words), torch.empty_like(values)
    tables = torch.tensor(module._PERCENTILE_TO_STD_TABLE), torch.tensor(module._NORMAL_CDF_TO_SIGMA_TABLE)
    limits = torch.full((batch,), k, dtype=torch.int32), torch.full((batch,), p)
    constants = {
        "VOCAB_SIZE": words, "MASK_VALUE": float("-inf"), "BLOCK_SIZE": 256, "BLOCK_SIZE_TRUNC": 128,
        "TOPK_ENABLED": k > 0, "TOPP_ENABLED": p < 1, "SPLIT_COVERS_PONLY": False,
    }  # fmt: skip  # as vLLM chooses them for a CPU

    def ours() -> Any:
        fresh.copy_(values)
        module._topk_topp_kernel[(min(2, batch),)](fresh, words, buffer, *tables, *limits, batch, **constants)
        return fresh

    return ours, {"torch": lambda: masks(torch, torch.float32, shape, k, p)}


def in_place(
    path: str, call: Callable[[Any, Any, Any], None], function: Callable[..., Any], found: Any, shape: tuple[int, int]
) -> tuple[Impl, Mapping[str, Impl]]:
    """A step that changes the logits: by a function of vLLM, and of torch, on copies."""
    torch: Any = imported("torch")
    module, values = module_of(found, path), logits(torch, *shape)
    fresh, other = torch.empty_like(values), torch.empty_like(values)

    def ours() -> Any:
        call(torch, module, fresh.copy_(values))
        return fresh

    return ours, {"torch": lambda: function(torch, other.copy_(values))}


@functools.cache
def requests(torch: Any, batch: int) -> Any:
    """The request of every row of logits."""
    return torch.arange(batch, dtype=torch.int32)


@functools.cache
def setting(torch: Any, batch: int, number: float) -> Any:
    """A setting, the same for all requests."""
    return torch.full((batch,), number)


def scaled_here(torch: Any, module: Any, values: Any) -> None:
    batch = len(values)
    module.apply_temperature(values, requests(torch, batch), setting(torch, batch, TEMPERATURE))


def scaled(torch: Any, values: Any) -> Any:
    return values.div_(setting(torch, len(values), TEMPERATURE)[:, None])


def min_p_here(torch: Any, module: Any, values: Any) -> None:
    batch = len(values)
    module.apply_min_p(values, requests(torch, batch), setting(torch, batch, MIN_P))


def min_p(torch: Any, values: Any) -> Any:
    """Mask the words less likely than a part of the likeliest."""
    return values.masked_fill_(values < values.amax(-1, keepdim=True) + np.log(MIN_P), -torch.inf)


@functools.cache
def seen(torch: Any, batch: int, words: int) -> tuple[Any, Any, Any]:
    """Words of the prompt as flags and as bits, and how often each word was given."""
    draw = torch.Generator().manual_seed(4)
    prompt = torch.rand(batch, words, generator=draw) < 0.01
    counts = torch.randint(0, 3, (batch, words), generator=draw, dtype=torch.int32) * (prompt.roll(7, -1)).int()
    bits = np.packbits(prompt.numpy(), axis=-1, bitorder="little")
    packed = np.zeros((batch, -(-words // 32) * 4), np.uint8)
    packed[:, : bits.shape[1]] = bits
    return prompt, torch.from_numpy(packed.view(np.int32)), counts


def penalised_here(torch: Any, module: Any, values: Any) -> None:
    batch, words = values.shape
    _, packed, counts = seen(torch, batch, words)
    weights = (setting(torch, batch, x) for x in (REPETITION, FREQUENCY, PRESENCE))
    rows, none = requests(torch, batch), torch.zeros(batch, dtype=torch.int32)
    module.apply_penalties(values, rows, none, none, *weights, packed, counts)


def penalised(torch: Any, values: Any) -> Any:
    """Penalties for words that occurred: a factor, and differences by how often and whether."""
    prompt, _, counts = seen(torch, *values.shape)
    given = counts > 0
    factor = torch.where(prompt | given, REPETITION, 1.0)
    values *= torch.where(values > 0, 1.0 / factor, factor)
    return values.sub_(FREQUENCY * counts).sub_(PRESENCE * given)


def log_probabilities(torch: Any, values: Any) -> tuple[Any, Any]:
    """Of some words: the logarithm of their probability, and the rank of the first."""
    words = wanted(torch, values)
    chosen = values.gather(-1, words)
    return chosen - values.logsumexp(-1, keepdim=True), (values >= chosen[:, :1]).sum(-1).to(values.dtype)


def wanted(torch: Any, values: Any) -> Any:
    batch, words = values.shape
    return torch.randint(0, words, (batch, WANTED), generator=torch.Generator().manual_seed(5))


def log_probability_rows(found: Any, shape: tuple[int, int]) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module, values = module_of(found, "v1/worker/gpu/sample/logprob.py"), logits(torch, *shape)
    words, (batch, size) = wanted(torch, values), shape
    ranks = torch.empty(batch, dtype=torch.int64)

    def ours() -> Any:
        first = words[:, 0].contiguous()
        module._ranks_kernel[(batch,)](ranks, values, values.stride(0), first, size, BLOCK_SIZE=8192)
        return module.compute_token_logprobs(values, words), ranks.float()

    return ours, {"torch": lambda: log_probabilities(torch, values)}


def hashed(seed: int, place: int, words: np.ndarray) -> np.ndarray:
    """MurmurHash3 of a seed in two parts, a place, and each word."""

    def rotated(x: np.ndarray, by: int) -> np.ndarray:
        return x << np.uint32(by) | x >> np.uint32(32 - by)

    h = np.zeros_like(words, np.uint32)
    for key in (np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.uint32(place), words.astype(np.uint32)):
        mixed = rotated(np.uint32(0xCC9E2D51) * (h * np.uint32(0) + key), 15) * np.uint32(0x1B873593)
        h = rotated(h ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(16)
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> np.uint32(by)) * np.uint32(factor)
    return h


def drawn(values: np.ndarray) -> Any:
    """The words that vLLM's kernel draws, in float64: the largest sum of a logit and Gumbel noise."""
    noise = [hashed(7 + row, 11 + row, np.arange(values.shape[1])) for row in range(len(values))]
    uniform = (np.array(noise) + 0.5) * 2.0**-32
    return np.argmax(values / np.float64(TEMPERATURE) - np.log(-np.log1p(-uniform)), -1)


def gumbel(found: Any, shape: tuple[int, int]) -> tuple[Impl, Mapping[str, Impl]]:
    """One word of every row by chance. Both draw by noise of their own: ours is compared with float64 here."""
    torch: Any = imported("torch")
    module, values = module_of(found, "v1/worker/gpu/sample/gumbel.py"), logits(torch, *shape)
    temperatures = setting(torch, shape[0], TEMPERATURE)
    rows = torch.arange(shape[0], dtype=torch.int64)
    arguments = requests(torch, shape[0]), temperatures, 7 + rows, 11 + rows

    def ours() -> Any:
        return module.gumbel_sample(values, *arguments, apply_temperature=True, is_drafting=False)

    def theirs() -> Any:
        chances = (values / TEMPERATURE).softmax(-1)
        return chances.div_(torch.empty_like(chances).exponential_()).argmax(-1)

    np.testing.assert_array_equal(ours().numpy(), drawn(values.double().numpy()))
    return ours, {"torch": theirs}


def is_word(shape: tuple[int, int], result: Any) -> Any:
    """Whether words that were drawn by chance are words."""
    return ((result >= 0) & (result < shape[1]) & (result == np.round(result))).astype(float)


def drawn_case(shape: tuple[int, int]) -> Case:
    return case(partial(gumbel, shape=shape), lambda torch: np.ones(shape[0]), partial(is_word, shape))


def kept(shape: tuple[int, int], result: Any) -> Any:
    """How likely the words are, all together, that are left, and by how much their logits changed.

    Of a word at a threshold, rounding decides.
    """
    torch: Any = imported("torch")
    values = logits(torch, *shape).double()
    left = np.isfinite(result)
    return (values.softmax(-1).numpy() * left).sum(-1), np.where(left, result - values.numpy(), 0.0)


def nucleus_case(shape: tuple[int, int]) -> Case:
    """Top-p alone: the kernel searches a threshold in steps, and may keep a few words more than a sort."""

    def reference(torch: Any) -> Any:
        return kept(shape, masks(torch, torch.float64, shape, 0, P).numpy())

    return case(partial(masking, shape=shape, k=0, p=P), reference, partial(kept, shape))


def row(name: str, shape: tuple[int, int], build: Callable[[], Case]) -> Row:
    batch, words = shape
    return Row(f"{name} (vLLM)", f"{batch} x {words}", batch * words, "element", "", 5e-3, build,
        (Bar("torch", 0.8),), (1,), family="sampler (vLLM)", needs="torch")  # fmt: skip


def changed_rows(shape: tuple[int, int]) -> tuple[Row, ...]:
    """Rows of steps that change the logits."""
    folder = "v1/worker/gpu/sample"
    steps: tuple[tuple[str, str, Any, Any], ...] = (
        ("temperature", f"{folder}/gumbel.py", scaled_here, scaled),
        ("min-p", f"{folder}/min_p.py", min_p_here, min_p),
        ("penalties", f"{folder}/penalties.py", penalised_here, penalised),
    )

    def build(path: str, call: Any, function: Any) -> Case:
        def reference(torch: Any, dtype: Any) -> Any:
            return function(torch, logits(torch, *shape).to(dtype, copy=True))

        make = partial(in_place, path, call, function, shape=shape)
        if function is not min_p:
            return case(make, partial(in_double, reference))
        return case(make, lambda torch: kept(shape, reference(torch, torch.float64).numpy()), partial(kept, shape))

    return tuple(row(name, shape, partial(build, *rest)) for name, *rest in steps)


def rows_of(shape: tuple[int, int]) -> tuple[Row, ...]:
    """All steps of the sampler for so many requests and words."""

    def masked(k: int, p: float) -> Case:
        def reference(torch: Any, dtype: Any) -> Any:
            return masks(torch, dtype, shape, k, p)

        return case(partial(masking, shape=shape, k=k, p=p), partial(in_double, reference))

    def listed() -> Case:
        def reference(torch: Any, dtype: Any) -> Any:
            return log_probabilities(torch, logits(torch, *shape).to(dtype))

        return case(partial(log_probability_rows, shape=shape), partial(in_double, reference))

    return (
        row("top-k", shape, partial(masked, K, 1.0)),
        row("top-p", shape, partial(nucleus_case, shape)),
        row("top-k and top-p", shape, partial(masked, K, P)),
        *changed_rows(shape),
        row("log-probabilities", shape, listed),
        row("Gumbel sampling", shape, partial(drawn_case, shape)),
    )


ROWS: Final = tuple(r for shape in SHAPES for r in rows_of(shape))
