"""What `pypto quant` asks of any kind of model: inputs to calibrate on, and what is measured before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pypto.quant.calibrate.blocks import Progress, Values
from pypto.quant.layer import QuantizedLayer
from pypto.quant.models.bert import Bert
from pypto.quant.models.llama import Llama

Step = Callable[[str], Progress]  # begins a phase of the bar
Layers = Mapping[str, QuantizedLayer]


@dataclass(frozen=True, slots=True)
class Request:
    """A text, and what of it the options ask for.

    Parameters
    ----------
    name : str
        Of its file.
    text : str
    calibrate : int, optional
        Windows or sentences to calibrate on; without, as many as suit the kind of model.
    evaluate : int, optional
        Those behind them to measure on; 0 for none.
    length : int
        Tokens of a window, and at most of a sentence.
    decode : int
        Tokens to make.
    """

    name: str
    text: str
    calibrate: int | None
    evaluate: int | None
    length: int
    decode: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """Numbers under a key of the JSON object, and a title on the terminal."""

    key: str
    title: str
    digits: int
    values: Mapping[str, float]

    def __str__(self) -> str:
        names = {name: name.replace("_", " ") for name in self.values}
        return "\n".join(f"{self.title} {names[name]}: {value:.{self.digits}f}" for name, value in self.values.items())


class Workload(Protocol):
    """A model, and the parts of a text that calibrate it and that it is measured on."""

    @property
    def blocks(self) -> Llama | Bert:
        """The model."""

    def copy_tokenizer(self, folder: Path) -> None:
        """Write what turns a text into tokens, where the model's own files do not."""

    @property
    def phases(self) -> tuple[str, ...]:
        """Names of the phases of `evaluate`."""

    def batches(self) -> Iterator[Values]:
        """Inputs of the first block to calibrate on."""

    def sample(self) -> Values:
        """Inputs on which layers are compared."""

    def evaluate(self, layers: Layers, step: Step) -> Measurement:
        """What the results of the quantised model are worth."""

    def speed(self, layers: Layers) -> Measurement | None:
        """Before and after, where that is asked for."""
