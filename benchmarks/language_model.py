"""Perplexity of a language model in few bits: ``python -m benchmarks.language_model MODEL.gguf``.

The text is `pydoc_data.topics`, which every CPython has: the first 400,000 characters are evaluated, those behind them
are calibrated on. A result that is better than float32 is marked as a fault of the measurement.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pydoc_data import topics
from typing import Any, Final

from pypto import quant
from pypto.errors.quant import FewSamples

EVALUATED: Final = 400_000  # characters
LENGTH: Final = 512
LEAST: Final = 35.0  # decibels of a layer's outputs, below which its inputs stay in float32
SMOOTH: Final = (quant.smoothquant(alpha=None), "gptq")
GPTQ: Final = quant.gptq(damp=0.1, act_order=True, clip_steps=8)
CONFIGS: Final = {
    "W8A8": quant.Config(inputs=quant.int8("token"), algorithm=SMOOTH, least_sqnr=LEAST),
    "W8A8C8": quant.Config(inputs=quant.int8("token"), algorithm=SMOOTH, least_sqnr=LEAST),
    "W8A8 all layers": quant.Config(inputs=quant.int8("token"), algorithm=SMOOTH),
    "W4 g32 nearest": quant.Config(quant.int4(group=32), algorithm="minmax"),
    "W4 g32 gptq": quant.Config(quant.int4(group=32), algorithm=GPTQ),
    "W4 g128 nearest": quant.Config(quant.int4(group=128), algorithm="minmax"),
    "W4 g128 gptq": quant.Config(quant.int4(group=128), algorithm=GPTQ),
}


def text() -> str:
    """All topics in the order of their names."""
    return "\n\n".join(topics.topics[name] for name in sorted(topics.topics))


@contextmanager
def measured(line: dict[str, Any], name: str) -> Iterator[None]:
    """Seconds of a part of the work."""
    start = time.perf_counter()
    yield
    line[f"{name}_s"] = round(time.perf_counter() - start, 1)


def calibrated(
    model: quant.Llama, config: quant.Config, ids: Any, folder: Path | None
) -> Mapping[str, Callable[[Any], Any]]:
    """Layers by name; int8 inputs on kernels, weights alone in numpy, which computes the same."""
    with quant.calibrate(model, config, folder) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamples)
        for window in range(0, len(ids), 8):
            run(model.embed(ids[window : window + 8]))
        layers = run.convert()
    return quant.deploy(layers) if config.inputs else layers


def int8_cache(file: Any, ids: Any) -> quant.Int8Cache:
    """Scales of keys from the float model on the calibration data."""
    ranges = quant.KeyRanges()
    quant.Llama(file, ranges).perplexity(ids)
    return quant.Int8Cache.of(ranges)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A model, tokens to evaluate and to calibrate on, and where results are kept."""

    model: quant.Llama
    ids: Any
    data: Any
    folder: Path | None

    def line(self, name: str, measure: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """What was measured before of the same tokens, or is measured now; printed as JSON."""
        path = None if self.folder is None else self.folder / f"{name.replace(' ', '-')}.json"
        line: dict[str, Any] = {"config": name, "tokens": int(self.ids.size), "calibration_tokens": int(self.data.size)}
        kept = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
        if line.items() <= kept.items():
            line = kept
        else:
            measure(line)
            line["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(line), "utf-8")
        print(json.dumps(line), flush=True)
        return line

    def float32(self, line: dict[str, Any]) -> None:
        """The model as it is."""
        with measured(line, "evaluation"):
            line["perplexity"] = self.model.perplexity(self.ids)

    def quantized(self, name: str, exact: float, line: dict[str, Any]) -> None:
        """One configuration."""
        folder = None if self.folder is None else self.folder / name.removesuffix("C8").replace(" ", "-")
        with measured(line, "calibration"):
            layers = calibrated(self.model, CONFIGS[name], self.data, folder)
            has_cache = name.endswith("C8")
            file = self.model.file
            model = quant.Llama(file, int8_cache(file, self.data)) if has_cache else self.model
        line["float_inputs"] = sum(getattr(layer, "kind", "") == "W8A16" for layer in layers.values())
        with measured(line, "evaluation"):
            line["perplexity"] = model.perplexity(self.ids, layers)
        line["change_percent"] = round(100 * (line["perplexity"] / exact - 1), 3)
        line["fault"] = line["perplexity"] < exact


def main() -> None:
    """Measure the configurations that are asked for, one line of JSON each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language_model", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--only", nargs="*", default=list(CONFIGS), choices=list(CONFIGS))
    parser.add_argument("--characters", type=int, default=EVALUATED)
    parser.add_argument("--folder", type=Path, help="where calibrations and results are kept, to go on after a kill")
    given = parser.parse_args()
    model = quant.load_llama(given.model)
    ids = model.windows(text()[: given.characters], LENGTH)
    measurement = Measurement(model, ids, model.windows(text()[EVALUATED:], LENGTH), given.folder)
    exact = measurement.line("float32", measurement.float32)["perplexity"]
    for name in given.only:
        measurement.line(name, partial(measurement.quantized, name, exact))


if __name__ == "__main__":
    main()
