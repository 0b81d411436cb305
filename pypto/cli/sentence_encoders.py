"""`pypto quant` of a sentence encoder: lines of a text, and how far its embeddings agree with those of float32."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pypto import quant
from pypto.cli.specs import UsageError
from pypto.cli.workloads import Layers, Measurement, Request, Step
from pypto.quant.calibrate.blocks import Progress, Values
from pypto.quant.models.bert_folder import TOKENIZER_FILE, SentenceTokenizer

CALIBRATE: Final = 512  # sentences
EVALUATE: Final = 64
BATCH: Final = 32
FEWEST: Final = 3  # sentences whose similarities have ranks
Tokens = tuple[Any, Any]  # ids and mask


@dataclass(frozen=True, slots=True)
class SentenceEncoder:
    """A model of a folder, with batches of sentences to calibrate on, and others to evaluate."""

    folder: Path
    blocks: quant.Bert
    data: list[Tokens]
    unseen: list[Tokens]

    @classmethod
    def of(cls, folder: Path, request: Request) -> SentenceEncoder:
        """The model, and the beginning of the text, a sentence a line; none is both calibrated on and evaluated."""
        if request.decode:
            raise UsageError("a sentence encoder makes no tokens: leave out --decode, --evaluate says its speed")
        first = CALIBRATE if request.calibrate is None else request.calibrate
        others = EVALUATE if request.evaluate is None else request.evaluate
        if 0 < others < FEWEST:
            raise UsageError(f"--evaluate {others}: similarities have ranks from {FEWEST} sentences on; or 0 for none")
        model = quant.load_bert(folder)
        tokenize = SentenceTokenizer.of(folder, model, request.length)
        lines = list(dict.fromkeys(line.strip() for line in request.text.splitlines() if line.strip()))
        if len(lines) < first + others:
            raise UsageError(
                f"{request.name} has {len(lines)} different sentences, one a line, and {first} + {others} are asked "
                f"for: give a longer text, or smaller --windows or --evaluate"
            )
        calibrated, unseen = lines[:first], lines[first : first + others]
        return cls(folder, model, batches(tokenize, calibrated), batches(tokenize, unseen))

    @property
    def phases(self) -> tuple[str, ...]:
        """Names of the phases of `evaluate`."""
        return ("evaluating float32", "evaluating quantised") if self.unseen else ()

    def batches(self) -> Iterator[Values]:
        """Inputs of the first block, of some sentences at once."""
        return (self.blocks.inputs(*tokens) for tokens in self.data)

    def copy_tokenizer(self, folder: Path) -> None:
        """That of the model's folder."""
        shutil.copyfile(self.folder / TOKENIZER_FILE, folder / TOKENIZER_FILE)

    def sample(self) -> Values:
        """Inputs of the first sentences."""
        return self.blocks.inputs(*self.data[0])

    def evaluate(self, layers: Layers, step: Step) -> Measurement:
        """Cosines to float32, and how far sentences are in one order of similarity."""
        rows = {}
        if self.phases:
            floats, quantised = self.phases
            exact = embedded(self.blocks.embed, self.unseen, step(floats))
            given = embedded(quant.Encoder.of(self.blocks, layers), self.unseen, step(quantised))
            cosines = quant.cosine(exact, given)
            rows = {"least_cosine": float(cosines.min()), "mean_cosine": float(cosines.mean())}
            rows["rank_correlation"] = quant.rank_correlation(similarities(exact), similarities(given))
        return Measurement("agreement", "embedding agreement,", 5, rows)

    def speed(self, layers: Layers) -> Measurement | None:
        """Sentences in a second, of those that are evaluated."""
        if not self.unseen:
            return None
        encoders = {"float32": quant.Encoder.of(self.blocks, {}), "quantised": quant.Encoder.of(self.blocks, layers)}
        speeds = {name: self.sentences_per_second(encoder) for name, encoder in encoders.items()}
        return Measurement("sentences_per_second", "sentences in a second", 1, speeds)

    def sentences_per_second(self, encoder: quant.Encoder) -> float:
        """Of an encoder, that has compiled what it needs before."""
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            for tokens in self.unseen:
                encoder(*tokens)
            seconds.append(time.perf_counter() - start)
        return sum(len(ids) for ids, _ in self.unseen) / min(seconds)


def batches(tokenize: SentenceTokenizer, sentences: list[str]) -> list[Tokens]:
    """Tokens of some sentences at once."""
    return [tokenize(sentences[i : i + BATCH]) for i in range(0, len(sentences), BATCH)]


def embedded(encode: Callable[..., Any], data: list[Tokens], progress: Progress) -> Any:
    """Embeddings of all batches."""
    vectors = []
    for number, tokens in enumerate(data):
        vectors.append(encode(*tokens))
        progress(number + 1, len(data))
    return np.concatenate(vectors)


def similarities(vectors: Any) -> Any:
    """Of all pairs of different sentences."""
    return (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
