"""How many modules LLVM compiles where vLLM's sampler and its Mamba2 kernels run: ``python -m … .warm_start``.

What they give is compared with references, as in the tests of entry points.
"""

from __future__ import annotations

from typing import Any, Final
from unittest.mock import patch

from pypto.backends.cpu.runtime.engine import Engine
from pypto.compat.triton import install
from tests.compat.packages import vllm_sampling, vllm_states

SAMPLER: Final = (
    "apply_temperature", "apply_min_p", "apply_penalties", "compute_token_logprobs", "gumbel_sample",
    "apply_top_k_top_p_triton, top-k", "apply_top_k_top_p_triton, top-p", "apply_top_k_top_p_triton, both",
)  # fmt: skip
STATES: Final = ("selective_state_update", "mamba_chunk_scan_combined_varlen")


def main() -> None:
    """Run the kernels, and print the count."""
    install()
    texts: list[str] = []
    compile = Engine.compile

    def counted(engine: Engine, text: str, timings: Any = None) -> bytes:
        texts.append(text)
        return compile(engine, text, timings)

    with patch.object(Engine, "compile", counted):
        for check in (*(vllm_sampling.SAMPLING[n] for n in SAMPLER), *(vllm_states.STATES[n] for n in STATES)):
            check()
    print(len(texts), "modules compiled")


if __name__ == "__main__":
    main()
