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
from pathlib import Path
from pydoc_data import topics
from typing import Any, Final

from pypto import quant
from pypto.errors.quant import FewSamples

EVALUATED: Final = 400_000  # characters
LENGTH: Final = 512
SMOOTH: Final = (quant.smoothquant(alpha=0.5), "gptq")
CONFIGS: Final = {
    "W8A8": quant.Config(inputs=quant.int8("token"), algorithm=SMOOTH),
    "W8A8C8": quant.Config(inputs=quant.int8("token"), algorithm=SMOOTH),
    "W4 g32 nearest": quant.Config(quant.int4(group=32), algorithm="minmax"),
    "W4 g32 gptq": quant.Config(quant.int4(group=32), algorithm="gptq"),
    "W4 g128 nearest": quant.Config(quant.int4(group=128), algorithm="minmax"),
    "W4 g128 gptq": quant.Config(quant.int4(group=128), algorithm="gptq"),
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


def main() -> None:
    """Measure the configurations that are asked for, one line of JSON each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language_model", description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--only", nargs="*", default=list(CONFIGS), choices=list(CONFIGS))
    parser.add_argument("--characters", type=int, default=EVALUATED)
    parser.add_argument("--folder", type=Path, help="where calibrations are kept, to go on after a kill")
    given = parser.parse_args()
    model = quant.load_llama(given.model)
    ids = model.windows(text()[: given.characters], LENGTH)
    data = model.windows(text()[EVALUATED:], LENGTH)
    line: dict[str, Any] = {"config": "float32", "tokens": int(ids.size), "calibration_tokens": int(data.size)}
    with measured(line, "evaluation"):
        exact = line["perplexity"] = model.perplexity(ids)
    print(json.dumps(line), flush=True)
    done: dict[Any, Any] = {}
    for name in given.only:
        line = {"config": name}
        folder = None if given.folder is None else given.folder / name.replace(" ", "-")
        with measured(line, "calibration"):
            key = repr(CONFIGS[name])
            layers = done[key] = done.get(key) or calibrated(model, CONFIGS[name], data, folder)
            evaluated = quant.Llama(model.file, int8_cache(model.file, data)) if name.endswith("C8") else model
        with measured(line, "evaluation"):
            line["perplexity"] = evaluated.perplexity(ids, layers)
        line["change_percent"] = round(100 * (line["perplexity"] / exact - 1), 3)
        line["fault"] = line["perplexity"] < exact
        line["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
