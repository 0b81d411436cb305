"""vLLM, unedited, serves models with its Triton kernels on pypto: tokens are those of its runner without Triton."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.compat.vllm_engine import ANSWER, MODELS
from tests.house.measure import ROOT
from tests.house.test_wheel import CLEAN, run
from tests.patience import limit

if importlib.util.find_spec("vllm") is None:
    pytest.skip("could not import 'vllm'", allow_module_level=True)

pytestmark = pytest.mark.slow

PROMPTS = 100
ASKED = {"temperature": 0, "max_tokens": 16}
WITHOUT_NETWORK = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """Models with random weights."""
    made = tmp_path_factory.mktemp("models")
    code = f"from pathlib import Path; from tests.compat import vllm_engine as e; e.write_models(Path({str(made)!r}))"
    run(python, "-c", code, cwd=ROOT, **WITHOUT_NETWORK)
    return made


def prompts() -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.randrange(3, 500) for _ in range(rng.randrange(3, 24))] for _ in range(PROMPTS)]


def environment(python: Path, folder: Path, **more: str) -> dict[str, str]:
    """Neither a network nor a compiler is within reach; vLLM asks `lscpu` for the cores."""
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        (tools / "lscpu").symlink_to(shutil.which("lscpu") or pytest.fail("vLLM needs lscpu"))
    path = os.pathsep.join((str(python.parent), str(tools)))
    return {**CLEAN, **WITHOUT_NETWORK, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache"), **more}


@contextmanager
def started(
    words: list[str], log: Path, env: dict[str, str], cwd: Path, answers: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """A process of vLLM; afterwards it is ended, and its children with it."""
    with (
        log.open("w", encoding="utf-8") as said,
        subprocess.Popen(
            words,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if answers else said,
            stderr=said,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=limit(30))
            except subprocess.TimeoutExpired:
                process.kill()


def answer(stream: IO[str] | None, log: Path) -> dict[str, Any]:
    for line in stream or ():
        if line.startswith(ANSWER):
            found: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
            return found
    pytest.fail(log.read_text(encoding="utf-8")[-4000:])


def tokens(python: Path, folder: Path, kind: str, **env: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an engine in one process says of itself, and its answer to all prompts."""
    log = folder / f"{kind}.log"
    words = [str(python), "-m", "tests.compat.vllm_engine", str(folder / kind)]
    words += ['dtype="bfloat16"'] if kind == "qwen3_next" else []  # vLLM's own C++ demands it
    one_process = environment(python, folder, VLLM_ENABLE_V1_MULTIPROCESSING="0", **env)
    with started(words, log, one_process, ROOT) as process:
        about = answer(process.stdout, log)
        assert process.stdin is not None
        print(json.dumps({"prompts": prompts(), **ASKED}), file=process.stdin, flush=True)
        return about, answer(process.stdout, log)


@pytest.mark.parametrize("kind", MODELS)
def test_greedy_tokens_are_those_of_the_runner_without_triton(python: Path, folder: Path, kind: str) -> None:
    without, expected = tokens(python, folder, kind, PYPTO_TRITON="0")
    with_pypto, found = tokens(python, folder, kind)
    assert (without["triton"], without["v2"], expected["launches"]) == (False, False, {})
    assert (with_pypto["triton"], with_pypto["v2"]) == (True, True)
    assert found["tokens"] == expected["tokens"]
    assert len({tuple(ids) for ids in found["tokens"]}) > PROMPTS // 2, "tokens differ between prompts"
    assert found["launches"]["_gumbel_sample_kernel"] >= 16 * PROMPTS // 16
    assert ("postprocess_mamba_fused_kernel" in found["launches"]) == (kind in ("granitemoehybrid", "qwen3_next"))


def test_a_server_with_the_default_engine(python: Path, folder: Path) -> None:
    """The server, its engine and its worker are processes of their own."""
    log, port = folder / "server.log", free_port()
    words = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "llama")]
    words += ["--port", str(port), "--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "16"]
    words += ["--skip-tokenizer-init", "--enforce-eager"]
    with started(words, log, environment(python, folder, PYPTO_LOG="specialize"), folder, False) as server:
        wait_for(server, port, log)
        body = {"model": str(folder / "llama"), "prompt": prompts()[:4], "ignore_eos": True, **ASKED}
        found = [choice["token_ids"] for choice in post(port, {**body, "return_token_ids": True})["choices"]]
    expected = tokens(python, folder, "llama", PYPTO_TRITON="0")[1]["tokens"][:4]
    assert found == expected
    said = log.read_text(encoding="utf-8")
    assert "pypto: _gumbel_sample_kernel compiled for" in said
    assert "pypto: _compute_slot_mappings_kernel compiled for" in said


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def wait_for(server: subprocess.Popen[str], port: int, log: Path) -> None:
    """Returns when the server answers."""
    until = time.monotonic() + limit(300)
    while time.monotonic() < until:
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=limit(5)).close()
            return
        except OSError:
            time.sleep(1)
    pytest.fail(log.read_text(encoding="utf-8")[-4000:])


def post(port: int, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/v1/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=limit(120)) as reply:
        given: dict[str, Any] = json.load(reply)
        return given
