"""What the encoder's first call costs in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Final

TUTORIALS: Final = Path(__file__).resolve().parent.parent
CACHE_DIR: Final = "PYPTO_CACHE_DIR"


def first_calls() -> tuple[float, float]:
    """Seconds of the encoder's first call in a fresh process: with an empty kernel cache, and with a filled one."""
    with tempfile.TemporaryDirectory() as folder:
        return _first_call(folder), _first_call(folder)


def _first_call(cache: str) -> float:
    command = [sys.executable, "-m", "minilm.timing"]
    environment = {**os.environ, CACHE_DIR: str(Path(cache).resolve())}
    done = subprocess.run(command, check=False, cwd=TUTORIALS, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the first call in a fresh process failed:\n{done.stderr}")
    return float(done.stdout)


def main() -> None:
    """Print the seconds of the encoder's first call in this process."""
    from minilm import load_sentences, load_weights, tokenize

    encoder = import_module("06_sentence_encoder").Encoder(load_weights())
    batch = tokenize([sentence.text for sentence in load_sentences()])
    start = time.perf_counter()
    encoder.embed(batch.ids, batch.mask)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
