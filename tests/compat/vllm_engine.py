"""A program of its own: an engine of vLLM reads lines of JSON with prompts, and writes lines with tokens.

``python -m tests.compat.vllm_engine FOLDER [name=value ...]`` serves the model of a folder.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

ANSWER: Final = "answer "
_SIZES: Final = {
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 1024, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_MAMBA: Final = {"mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16, "mamba_n_groups": 1}
_LINEAR: Final = {
    "linear_num_value_heads": 2, "linear_num_key_heads": 1, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
}  # fmt: skip
_EXPERTS: Final = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
MODELS: Final[dict[str, dict[str, Any]]] = {
    "llama": {"num_hidden_layers": 2},
    "qwen2": {"num_hidden_layers": 2},
    "granitemoehybrid": {
        "num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"], **_MAMBA,
        "mamba_chunk_size": 64, "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 128,
        "position_embedding_type": "nope"},
    "qwen3_next": {
        "num_hidden_layers": 4, "layer_types": [*["linear_attention"] * 3, "full_attention"], "head_dim": 32,
        **_LINEAR, **_EXPERTS, "shared_expert_intermediate_size": 64},
}  # fmt: skip


def write_models(folder: Path) -> None:
    """Writes a model of each kind with random weights, as wide as makes greedy tokens differ."""
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    for kind, more in MODELS.items():
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(kind, **_SIZES, **more)
        model = transformers.AutoModelForCausalLM.from_config(config).float()
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.data.normal_(0, 0.15)
        model.save_pretrained(folder / kind)


def counted_launches() -> Counter[str]:
    """Counts launches of kernels under `triton.jit` from now on, by name."""
    kernel: Any = importlib.import_module("triton.runtime.jit").JITFunction
    launches: Counter[str] = Counter()
    run = kernel.run

    def counting(self: Any, *args: Any, **given: Any) -> Any:
        launches[self.__name__] += not given.get("warmup", False)
        return run(self, *args, **given)

    kernel.run = counting
    return launches


def serve(folder: str, options: dict[str, Any]) -> None:
    """Answers requests until there are no more."""
    vllm, has_triton = importlib.import_module("vllm"), importlib.import_module("vllm.triton_utils").HAS_TRITON
    launches: Counter[str] = counted_launches() if has_triton else Counter()
    given = {"skip_tokenizer_init": True, "dtype": "float32", "enforce_eager": True, "max_model_len": 256}
    engine = vllm.LLM(folder, **{**given, "max_num_seqs": 16, "max_num_batched_tokens": 256, **options})
    say({"cpu": time.process_time(), "triton": has_triton, "v2": engine.llm_engine.vllm_config.use_v2_model_runner})
    for line in sys.stdin:
        request = json.loads(line)
        prompts = [{"prompt_token_ids": ids} for ids in request.pop("prompts")]
        params = vllm.SamplingParams(detokenize=False, ignore_eos=True, **request)
        launches.clear()
        started = time.process_time()
        done = engine.generate(prompts, params, use_tqdm=False)
        cpu = time.process_time() - started
        tokens = [list(request.outputs[0].token_ids) for request in done]
        say({"tokens": tokens, "cpu": cpu, "launches": launches})


def say(answer: dict[str, Any]) -> None:
    print(ANSWER + json.dumps(answer), flush=True)


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[2:])
    serve(sys.argv[1], {name: json.loads(text) for name, text in given.items()})
