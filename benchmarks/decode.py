"""Decoding a language model, one token at a time: ``python -m benchmarks.decode MODEL.gguf [--llama PATH]``.

Weights in float32, W8A8 and W4A16, with a cache in float32 and in int8; beside llama.cpp on the same file, where
`--llama` names its ``llama-bench``. Rounds are interleaved. Times are CPU time, which other work disturbs least. Before
any time is taken, the tokens are compared with those that the same weights give in numpy, without a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from pydoc_data import topics
from typing import Any, Final

import numpy as np

from benchmarks.levels import environment
from pypto import quant
from pypto.quant.models.llama_file import LINEAR

NAMES: Final = ("float32", "W8A8", "W8A8C8", "W4A16")
PROMPT: Final = (504, 3575, 282, 4649, 314)  # "The capital of France is" for SmolLM2
TOKENS: Final = 24  # that are compared
SEEN: Final = 4096  # characters that are calibrated on
LEAST: Final = 35.0  # decibels of a layer's outputs, below which its inputs stay in float32
NEARLY: Final = 0.5  # of a logit
Layers = Mapping[str, Callable[[Any], Any]]
DESCRIPTION: Final = "Time tokens of a language model in float32 and in few bits."


def rms_norm(x: Any, weight: Any, eps: float) -> Any:
    """In numpy."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * weight


def rotated(x: Any, frequencies: Any) -> Any:
    """Heads (tokens, heads, depth), whose neighbours are pairs, at their positions."""
    angles = np.outer(np.arange(len(x)), frequencies)[:, None]
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape).astype(np.float32)


def logits(model: quant.Llama, ids: Any, layers: Layers | None = None) -> Any:
    """Logits behind each token, in numpy and float32, over the whole sequence at once."""
    read = model.file.array
    eps = model.sizes.eps
    x = model.rows(ids)
    for number in range(len(model)):

        def linear(part: str, x: Any, number: int = number) -> Any:
            layer = (layers or {}).get(f"{number}.{part}")
            return x @ read(f"blk.{number}.{LINEAR[part]}.weight").T if layer is None else layer(x)

        t = rms_norm(x, read(f"blk.{number}.attn_norm.weight"), eps)
        x = x + linear("output", attention(model, number, *(linear(part, t) for part in "qkv")))
        t = rms_norm(x, read(f"blk.{number}.ffn_norm.weight"), eps)
        gate = linear("gate", t)
        x = x + linear("down", gate / (1 + np.exp(-gate)) * linear("up", t))
    return rms_norm(x, read("output_norm.weight"), eps) @ model.head.T


def attention(model: quant.Llama, number: int, q: Any, k: Any, v: Any) -> Any:
    """Causal attention, through the model's cache where it has one."""
    sizes = model.sizes
    heads, shared, depth = sizes.heads, sizes.shared, sizes.depth
    q, k, v = (t.reshape(len(t), -1, depth) for t in (q, k, v))
    q, k = rotated(q, sizes.frequencies), rotated(k, sizes.frequencies)
    if model.cache is not None:
        k, v = (t[0] for t in model.cache(str(number), k[None], v[None]))
    k, v = (np.repeat(t, heads // shared, axis=1) for t in (k, v))
    scores = np.einsum("nhd,mhd->hnm", q, k) / np.float32(np.sqrt(depth))
    scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hnm,mhd->nhd", weights, v).reshape(len(q), -1)


def check(decoder: quant.Decoder, layers: Layers | None = None, tokens: int = TOKENS) -> list[int]:
    """Tokens of a decoder: each is the most probable one in numpy behind those before it.

    Where inputs are int8, a sum that differs in its last bit rounds a code the other way now and then, and that code
    changes logits by tenths: a token may then be one whose logit is nearly the largest, one of ten at most.
    """
    made = decoder.generate(PROMPT, tokens)
    expected = logits(decoder.model, [*PROMPT, *made], layers)[len(PROMPT) - 1 : -1]
    lost = expected.max(-1) - expected[np.arange(len(made)), made]
    is_rounded = layers is not None or decoder.model.cache is not None
    assert lost.max() <= (NEARLY if is_rounded else 0), f"tokens {made} are {lost} below numpy's"
    assert np.count_nonzero(lost) <= len(made) // 10, f"tokens {made} are {lost} below numpy's"
    return made


def quantized(model: quant.Llama) -> Mapping[str, quant.QuantizedLayer]:
    """Weights and inputs in int8; layers that lose much by that have float inputs."""
    config = quant.Config(inputs=quant.int8("token"), algorithm="smoothquant", least_sqnr=LEAST)
    with quant.calibrate(model, config) as run:
        run(model.embed(model.windows(text(), 128)))
        return run.convert()


def text() -> str:
    """A part of Python's documentation."""
    return "\n\n".join(topics.topics[name] for name in sorted(topics.topics))[:SEEN]


def int8_cache(file: Any) -> quant.Int8Cache:
    """Scales of keys, from a part of Python's documentation."""
    ranges = quant.KeyRanges()
    model = quant.Llama(file, ranges)
    model.perplexity(model.windows(text(), 128))
    return quant.Int8Cache.of(ranges)


def decoders(model: quant.Llama, names: list[str]) -> dict[str, tuple[quant.Decoder, Layers | None]]:
    """Those that are asked for, and the layers that numpy computes the same with."""
    found: dict[str, tuple[quant.Decoder, Layers | None]] = {}
    eight = quantized(model) if any(name.startswith("W8A8") for name in names) else {}
    for name in names:
        if name.startswith("W8A8"):
            used = quant.Llama(model.file, int8_cache(model.file)) if name == "W8A8C8" else model
            found[name] = quant.Decoder(used, quant.deploy(eight)), eight
        else:
            found[name] = quant.Decoder(model, floats=name == "float32"), None
    return found


def seconds(decoder: quant.Decoder, tokens: int) -> float:
    """CPU time of a token."""
    cache = decoder.cache(len(PROMPT) + tokens)
    decoder.prefill(PROMPT, cache)
    start = time.process_time()
    for _ in range(tokens):
        decoder.step(PROMPT[0], cache)
    return (time.process_time() - start) / tokens


def llama_seconds(program: Path, model: Path, tokens: int, threads: int) -> float:
    """CPU time of a token of llama.cpp: the difference between a long run and a short one."""

    def run(count: int) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [program, "-m", model, "-t", str(threads), "-p", "0", "-n", str(count), "-r", "1", "--no-warmup"]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    short = 8
    return (run(tokens + short) - run(short)) / tokens


def main() -> None:
    """Check the tokens, then time rounds; one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=DESCRIPTION)
    parser.add_argument("model", type=Path)
    parser.add_argument("--llama", type=Path, help="llama.cpp's llama-bench")
    parser.add_argument("--level", default="", help="a CPU feature level, as in x86-64-v3, for ours")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(NAMES), choices=NAMES)
    given = parser.parse_args()
    wanted = environment(given.level) | {"PYPTO_NUM_THREADS": str(given.threads)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.decode", *sys.argv[1:]], os.environ | wanted)
    found = decoders(quant.load_llama(given.model), given.only)
    for decoder, layers in found.values():
        check(decoder, layers)
    times: dict[str, list[float]] = {name: [] for name in found}
    if given.llama:
        times["llama.cpp"] = []
    for _ in range(given.rounds):
        for name, (decoder, _) in found.items():
            times[name].append(seconds(decoder, given.tokens))
        if given.llama:
            times["llama.cpp"].append(llama_seconds(given.llama, given.model, given.tokens, given.threads))
    print(json.dumps(summary(times, found) | {"level": given.level, "threads": given.threads}))


def summary(times: Mapping[str, list[float]], found: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds of a token, megabytes of weights, and medians of the ratios within a round."""

    def ratio(one: str, other: str) -> float:
        return round(statistics.median(a / b for a, b in zip(times[one], times[other], strict=True)), 2)

    lines: dict[str, Any] = {name: {"ms": round(1000 * min(values), 2)} for name, values in times.items()}
    for name, (decoder, _) in found.items():
        lines[name]["mb"] = round(decoder.bytes / 1e6, 1)
        lines[name] |= {
            f"times as fast as {other}": ratio(other, name) for other in ("float32", "llama.cpp") if other in times
        }
    return lines


if __name__ == "__main__":
    main()
