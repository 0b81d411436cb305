"""``python -m benchmarks.helion_examples FOLDER [NAME …]``: Helion's own examples on the CPU, each in its own process.

FOLDER is `examples` of Helion's repository. An example compares its kernels with torch; what it would measure after it
is left out. Examples whose sizes are for GPUs run with the smaller ones of `SMALLER`, all else in them unchanged.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

Change = tuple[str, str]  # a text of an example, and what stands there instead

SECONDS: Final = 600
_CHUNKS: Final = ("8, 80, 1, 4096, 256, 64, 128", "2, 4, 1, 512, 128, 32, 64")
_FROM_CUDA: Final = ('str = "cuda"', 'str = "cpu"')
_HEADS: Final = (("test(2, 32, 1024, 64", "test(2, 3, 200, 64"), ("test(2, 4, 1024", "test(2, 4, 200"))
_GATED: Final = (("(8, 2048, 4096, 11008)", "(2, 40, 128, 344)"), ("(8, 4096, 8192, 11008)", "(2, 64, 200, 512)"))

SMALLER: Final[MappingProxyType[str, tuple[Change, ...]]] = MappingProxyType({
    # float32 sums in another order, in bfloat16: the tolerance that the example has for another backend
    "bf16xint16_gemm": (('if _get_backend() == "pallas" else', "if True else"),),
    "cross_entropy": (("8, 2048, 131072", "4, 32, 3001"),),
    "epilogue_subtiling": (("check(8192, 8192, 8192)", "check(192, 320, 160)"),),
    "flex_attention": (_FROM_CUDA, *_HEADS),
    "fused_linear_jsd": (("check(1024, 4096, 128256)", "check(48, 96, 2051)"),),
    "gather_gemv": (("range(11, 15)", "range(7, 10)"),),
    "geglu": (("(8, 2048, 4096), (8, 4096, 8192)", "(2, 64, 200), (3, 33, 256)"), *_GATED),
    "grpo_loss": (
        ('"B": 8, "L": 2048, "V": 64000', '"B": 2, "L": 33, "V": 1283'),
        ("B=8,\n        L=2048,\n        V=64000", "B=2, L=33, V=1283"),
        ("iters=50,\n        warmup=10", "iters=1, warmup=0"),
    ),
    "int4_gemm": (("check(4, 8192, 7168)", "check(4, 1024, 896)"), ("check(8192, 8192, 8192)", "check(192, 512, 256)")),
    "jagged_hstu_attn": (("batch_size=1024", "batch_size=5"), ("max_seq_len=1024", "max_seq_len=128")),
    "jsd": (("T = 2048", "T = 9"), ("[2**i for i in range(16, 18)]", "[1024, 3001]")),
    "mamba2_chunk_scan": (_CHUNKS,),
    "mamba2_chunk_state": (_CHUNKS,),
    "swiglu": (
        ("(4, 8192, 4096), (8, 8192, 4096)", "(2, 64, 200), (3, 33, 256)"),
        ("(4, 8192, 4096, 11008)", "(2, 40, 128, 344)"),
        ("(8, 8192, 4096, 11008)", "(2, 64, 200, 512)"),
    ),
})  # fmt: skip

# Examples that measure only: calls, and what they must give. `r` is a random array.
_NORM: Final = "r.float() * (r.float().square().mean(-1, keepdim=True) + 1e-5).rsqrt()"
CHECKS: Final[MappingProxyType[str, tuple[Change, ...]]] = MappingProxyType({
    "aot_compile_example": (("add_2d(r, r)", "r + r"),),
    "aot_example": (
        ("vector_scale(r[0], 2.0)", "r[0] * 2"),
        ("row_softmax(r)", "r.softmax(-1)"),
        ("col_reduce_sum(r)", "r.sum(0)"),
        ("rms_norm_batched(r)", _NORM),
        ("rms_norm_oneshot(r)", _NORM),
        ("matmul_custom_key(r, r.t().contiguous())", "r @ r.t()"),
        ("sum_aot(r)", "r.sum(-1)"),
    ),
})  # fmt: skip


def run_here(folder: str, name: str, scratch: str) -> None:
    """Run one example in this process, which is a fresh one; it raises where the example finds a difference."""
    os.environ.setdefault("HELION_AUTOTUNE_EFFORT", "none")
    from pypto.compat.helion import install

    install()
    import torch

    testing: Any = importlib.import_module("helion._testing")
    testing.DEVICE = torch.device("cpu")
    testing.compute_repeat, testing.do_bench = (lambda *_, **__: 1), (lambda *_, **__: 1.0)
    testing.interleaved_bench = lambda functions, **_: [1.0 for _ in functions]
    path, changed = Path(folder, f"{name}.py"), Path(scratch, f"{Path(name).name}.py")
    text = path.read_text()
    for old, new in SMALLER.get(name, ()):
        if old not in text:
            raise ValueError(f"{path} has changed: {old!r} is not in it")
        text = text.replace(old, new)
    changed.write_text(text)
    sys.path.insert(0, str(Path(folder).parent))
    spec: Any = importlib.util.spec_from_file_location("example", changed)
    module = sys.modules["example"] = importlib.util.module_from_spec(spec)
    sys.argv = [path.name]
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    module.main()
    given = {**vars(module), "r": torch.randn(70, 90, dtype=torch.float16)}
    for call, wanted in CHECKS.get(name, ()):
        found, right = (eval(code, given) for code in (call, wanted))
        torch.testing.assert_close(found.float(), right.float(), rtol=1e-2, atol=2e-2)


def results(folder: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    """The examples, each with an empty text where it is right, or the last line of what it says."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            given = json.dumps([str(folder), name, scratch])
            code = f"from benchmarks.helion_examples import run_here; run_here(*{given})"
            command = [sys.executable, "-W", "ignore", "-c", code]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                yield name, f"not done in {SECONDS} seconds"
                continue
            said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
            yield name, said[-1] if done.returncode else ""


def main(args: list[str]) -> int:
    """Print each example with what became of it; 1 if one is not right."""
    if not args or args[0].startswith("-"):
        print(__doc__)
        return 2
    folder = Path(args[0]).resolve()
    names = args[1:] or sorted(path.stem for path in folder.glob("*.py") if "def main(" in path.read_text())
    wrong = 0
    for name, problem in results(folder, names):
        wrong += bool(problem)
        print(f"{name}: {problem or 'right'}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} are right")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
