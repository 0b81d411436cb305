"""The sentence encoder in int8 beside float32 and ONNX Runtime: ``python -m benchmarks.int8_encoder [MODEL.onnx]``.

MODEL.onnx is an int8 file of all-MiniLM-L6-v2, which takes `input_ids`, `attention_mask` and `token_type_ids`. Ours is
calibrated on prose that every CPython has, and embeds the tutorial's sentences. Everybody runs in turns, in one
process; a result counts only where its cosine to float64 is what it should be. The settings were chosen on these
sentences; so cosines of docstrings of the standard library, which no choice saw, are printed besides. `--level
x86-64-v3` holds ours and torch to AVX2; ONNX Runtime has no such setting.
"""

from __future__ import annotations

import argparse
import ast
import json
import sysconfig
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from pydoc_data import topics
from typing import Any, Final

import numpy as np

from benchmarks.levels import PEERS as LEVELS
from benchmarks.levels import environment, note
from benchmarks.onnx_encoder import onnx_encoder, session_options
from benchmarks.ours import ours
from benchmarks.peers import imported
from benchmarks.runner import Missing
from benchmarks.steady import become_steady
from benchmarks.tutorials import allow_helpers
from pypto import quant, set_num_threads
from pypto.errors.quant import FewSamples

CONFIG: Final = quant.Config(
    inputs=quant.int8("group", group=64), algorithm=(quant.smoothquant(alpha=0.5), quant.gptq(damp=0.1))
)
CALIBRATION: Final = 200  # sentences
BATCHES: Final = (1, 8, 32)
HELD_OUT: Final = 256  # sentences
HELD_OUT_LEAST: Final = 0.999
OURS: Final = "ours int8"
LEAST: Final = {OURS: 0.9993, "onnxruntime int8": 0.999}
EXACT: Final = 0.99999
SECONDS: Final = 0.02  # of one turn
Run = Callable[[], Any]


def prose(count: int) -> list[str]:
    """Sentences of Python's documentation, evenly from all topics."""
    text = " ".join(topics.topics[name] for name in sorted(topics.topics))
    found = [" ".join(part.split()) for part in text.split(". ")]
    found = [s for s in found if 40 < len(s) < 160 and sum(c.isalpha() or c == " " for c in s) > 0.95 * len(s)]
    return found[:: max(len(found) // count, 1)][:count]


def is_prose(text: str) -> bool:
    """Whether a text has the length of a sentence, and hardly anything but words."""
    return 40 < len(text) < 160 and sum(c.isalpha() or c == " " for c in text) > 0.93 * len(text)


def docstrings(count: int) -> list[str]:
    """First paragraphs of docstrings of the standard library, evenly from all modules."""
    found = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                found.append(" ".join(text.split("\n\n")[0].split()))
    found = [text for text in found if is_prose(text)]
    return found[:: max(len(found) // count, 1)][:count]


def real_model() -> quant.Bert:
    """The real weights as a model that can be calibrated."""
    allow_helpers()
    from minilm.model import HEADS, model_file
    from safetensors.numpy import load_file

    return quant.Bert.of(load_file(str(model_file("model.safetensors"))), HEADS)


def calibrated(model: quant.Bert) -> Mapping[str, quant.QuantizedLayer]:
    """Its layers in int8."""
    from minilm import tokenize

    batch = tokenize(prose(CALIBRATION))
    with quant.calibrate(model, CONFIG) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamples)
        run(model.inputs(batch.ids, batch.mask))
        return run.convert()


def by_onnx_file(path: Path, batch: Any, threads: int) -> Run | Missing:
    """A model of ONNX Runtime that gives all tokens; their means are taken in numpy, as for ours."""
    from minilm import numpy_encoder

    runtime = imported("onnxruntime")
    if isinstance(runtime, Missing):
        return runtime
    session = runtime.InferenceSession(str(path), session_options(runtime, threads), providers=["CPUExecutionProvider"])
    given = {"input_ids": batch.ids, "attention_mask": batch.mask, "token_type_ids": np.zeros_like(batch.ids)}
    given = {name: value.astype(np.int64) for name, value in given.items()}
    return lambda: numpy_encoder.pool(session.run(None, given)[0], batch.mask)


def by_torch(weights: Any, batch: Any, threads: int) -> Run | Missing:
    """The model in torch, float32."""
    torch = imported("torch")
    if isinstance(torch, Missing):
        return torch
    from minilm.torch_encoder import TorchEncoder

    torch.set_num_threads(threads)
    encoder = TorchEncoder(weights)
    given = torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)
    return lambda: encoder.forward(*given).numpy()


def runs(weights: Any, deployed: quant.Encoder, batch: Any, threads: int, path: Path | None) -> dict[str, Run]:
    """Everybody who is there, by name."""
    make = ours("06_sentence_encoder", "Encoder")
    assert not isinstance(make, Missing), make.reason
    plain = make(weights)
    found: dict[str, Run | Missing] = {
        OURS: lambda: deployed(batch.ids, batch.mask),
        "ours float32": lambda: plain.embed(batch.ids, batch.mask),
        "onnxruntime int8": Missing("no file") if path is None else by_onnx_file(path, batch, threads),
        "onnxruntime float32": onnx_encoder(weights, batch, threads),
        "torch float32": by_torch(weights, batch, threads),
    }
    return {name: run for name, run in found.items() if not isinstance(run, Missing)}


def measured(everybody: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """The least milliseconds of each, in turns."""
    least = {name: float("inf") for name in everybody}
    for _ in range(rounds):
        for name, run in everybody.items():
            run()
            until = time.perf_counter() + SECONDS
            while time.perf_counter() < until:
                start = time.perf_counter()
                run()
                least[name] = min(least[name], 1e3 * (time.perf_counter() - start))
    return least


def held_out(weights: Any, deployed: quant.Encoder, path: Path | None) -> dict[str, Any]:
    """Cosines to float64 of sentences that no setting was chosen on."""
    from minilm import numpy_encoder, tokenize

    cosines: dict[str, list[Any]] = {}
    sentences = docstrings(HELD_OUT)
    for first in range(0, len(sentences), max(BATCHES)):
        batch = tokenize(sentences[first : first + max(BATCHES)])
        exact = numpy_encoder.embed(weights, batch, np.float64)
        others = {} if path is None else {"onnxruntime int8": by_onnx_file(path, batch, 1)}
        for name, run in {OURS: lambda batch=batch: deployed(batch.ids, batch.mask), **others}.items():
            if not isinstance(run, Missing):
                cosines.setdefault(name, []).append(quant.cosine(exact, np.asarray(run())))
    found = {name: np.concatenate(parts) for name, parts in cosines.items()}
    for name, values in found.items():
        assert values.min() >= HELD_OUT_LEAST, (name, values.min())
    return {name: [float(values.min()), float(values.mean())] for name, values in found.items()}


def cell(
    weights: Any, deployed: quant.Encoder, count: int, threads: int, path: Path | None, rounds: int
) -> dict[str, Any]:
    """One batch on some threads: checked, then timed."""
    from minilm import load_sentences, numpy_encoder, tokenize

    set_num_threads(threads)
    batch = tokenize([sentence.text for sentence in load_sentences()][:count])
    exact = numpy_encoder.embed(weights, batch, np.float64)
    everybody = runs(weights, deployed, batch, threads, path)
    cosines = {name: quant.cosine(exact, np.asarray(run())) for name, run in everybody.items()}
    for name, found in cosines.items():
        assert found.min() >= LEAST.get(name, EXACT), (name, found.min())
    times = measured(everybody, rounds)
    shown = {name: [float(found.min()), float(found.mean())] for name, found in cosines.items()}
    return {"sentences": count, "tokens": int(batch.mask.sum()), "threads": threads, "ms": times, "cosine": shown}


def table(lines: list[dict[str, Any]]) -> str:
    """Milliseconds as a Markdown table, others also as multiples of ours."""
    names = list(lines[0]["ms"])
    rows = [["sentences", "threads", *names], ["---:"] * (2 + len(names))]
    for line in lines:
        own = line["ms"][OURS]
        others = (f"{line['ms'][name]:.1f} ({line['ms'][name] / own:.1f}x)" for name in names[1:])
        rows.append([str(line["sentences"]), str(line["threads"]), f"{own:.1f}", *others])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path, help="an int8 ONNX file")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--level", default="", choices=sorted(LEVELS), help="hold ours and torch to a CPU level")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    become_steady(environment(options.level))
    model = real_model()
    from minilm import load_weights

    deployed, weights = quant.Encoder.of(model, calibrated(model)), load_weights()
    lines = [
        cell(weights, deployed, count, threads, options.model, options.rounds)
        for threads in options.threads
        for count in BATCHES
    ]
    print(note())
    print(table(lines))
    for name, (least, mean) in lines[-1]["cosine"].items():
        print(f"{name}: cosine to float64 at least {least:.5f}, mean {mean:.5f}")
    unseen = held_out(weights, deployed, options.model)
    for name, (least, mean) in unseen.items():
        print(f"{name}, docstrings: cosine to float64 at least {least:.5f}, mean {mean:.5f}")
    if options.json is not None:
        options.json.write_text(
            json.dumps({"note": note(), "cells": lines, "docstrings": unseen}, indent=1), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
