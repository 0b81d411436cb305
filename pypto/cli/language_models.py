"""`pypto quant` of a language model: windows of a text, and perplexity."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pypto import quant
from pypto.cli.specs import UsageError
from pypto.cli.workloads import Layers, Measurement, Request, Step
from pypto.quant.calibrate.blocks import Values

CALIBRATE: Final = 32  # windows
EVALUATE: Final = 8
BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A model of a GGUF file, with windows to calibrate on, and others to evaluate."""

    blocks: quant.Llama
    data: Any
    unseen: Any
    decode: int

    @classmethod
    def of(cls, path: Path, request: Request) -> LanguageModel:
        """The model, and the beginning of the text."""
        model = quant.load_llama(path)
        ids = model.windows(request.text, request.length)
        first = CALIBRATE if request.calibrate is None else request.calibrate
        others = EVALUATE if request.evaluate is None else request.evaluate
        if len(ids) < first + others:
            raise UsageError(
                f"{request.name} has {len(ids)} windows of {request.length} tokens, and {first} + {others} are asked "
                f"for: give a longer text, or smaller --windows, --evaluate or --length"
            )
        return cls(model, ids[:first], ids[first : first + others], request.decode)

    @property
    def phases(self) -> tuple[str, ...]:
        """Names of the phases of `evaluate`."""
        return ("evaluating float32", "evaluating quantised") if len(self.unseen) else ()

    def batches(self) -> Iterator[Values]:
        """Inputs of the first block, of some windows at once."""
        return (self.blocks.embed(self.data[i : i + BATCH]) for i in range(0, len(self.data), BATCH))

    def copy_tokenizer(self, folder: Path) -> None:
        """Nothing: the keys of the file have all of it."""

    def sample(self) -> Values:
        """Inputs of the first window."""
        return self.blocks.embed(self.data[:1])

    def evaluate(self, layers: Layers, step: Step) -> Measurement:
        """Perplexities."""
        rows = {}
        if self.phases:
            floats, quantised = self.phases
            rows["float32"] = self.blocks.perplexity(self.unseen, progress=step(floats))
            deployed = quant.deploy(layers) if any(layer.inputs for layer in layers.values()) else layers
            rows["quantised"] = self.blocks.perplexity(self.unseen, deployed, progress=step(quantised))
        return Measurement("perplexity", "perplexity", 3, rows)

    def speed(self, layers: Layers) -> Measurement | None:
        """Tokens in a second, where some are to be made."""
        if not self.decode:
            return None
        decoders = {"float32": quant.Decoder(self.blocks, floats=True), "quantised": quant.Decoder(self.blocks, layers)}
        speeds = {name: self.tokens_per_second(decoder) for name, decoder in decoders.items()}
        return Measurement("tokens_per_second", "tokens in a second", 1, speeds)

    def tokens_per_second(self, decoder: quant.Decoder) -> float:
        """Of a decoder, behind the first window."""
        prompt = self.data[0]
        cache = decoder.cache(len(prompt) + self.decode + 1)
        decoder.prefill(prompt, cache)
        token = int(decoder.step(prompt[-1], cache).argmax())  # compiled by that
        start = time.perf_counter()
        for _ in range(self.decode):
            token = int(decoder.step(token, cache).argmax())
        return self.decode / (time.perf_counter() - start)
