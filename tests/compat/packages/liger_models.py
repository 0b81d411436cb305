"""Models of transformers that Liger-Kernel patches: loss and gradients of a training step are those without it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch

from tests.compat.packages.agreement import Check, later
from tests.compat.world import close

PACKAGE = "liger-kernel"
SMALL = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "attention_dropout": 0.0, "use_cache": False,
}  # fmt: skip
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
SHARED = {"shared_expert_intermediate_size": 48, "n_routed_experts": 4, "n_shared_experts": 1}
DEEPSEEK = {
    **EXPERTS, **SHARED, "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16, "v_head_dim": 16, "head_dim": 16, "first_k_dense_replace": 1, "n_group": 1,
    "topk_group": 1,
}  # fmt: skip
LINEAR = {
    **EXPERTS, **SHARED, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 16,
    "linear_value_head_dim": 16, "full_attention_interval": 2, "decoder_sparse_step": 1,
}  # fmt: skip
# What Liger calls a model, and its classes in transformers, with sizes of its own.
MODELS: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {}),
    "ministral": ("MinistralConfig", "MinistralForCausalLM", {}),
    "mixtral": ("MixtralConfig", "MixtralForCausalLM", EXPERTS),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {}),
    "gemma3_text": ("Gemma3TextConfig", "Gemma3ForCausalLM", {}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {}),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {}),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", EXPERTS),
    "qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", LINEAR),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", {}),
    "granite": ("GraniteConfig", "GraniteForCausalLM", {}),
    "olmo2": ("Olmo2Config", "Olmo2ForCausalLM", {}),
    "olmo3": ("Olmo3Config", "Olmo3ForCausalLM", {}),
    "glm4": ("Glm4Config", "Glm4ForCausalLM", {}),
    "smollm3": ("SmolLM3Config", "SmolLM3ForCausalLM", {}),
    "exaone4": ("Exaone4Config", "Exaone4ForCausalLM", {}),
    "nemotron": ("NemotronConfig", "NemotronForCausalLM", {}),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", "HunYuanDenseV1ForCausalLM", {}),
    "hunyuan_v1_moe": ("HunYuanMoEV1Config", "HunYuanMoEV1ForCausalLM", {"num_experts": 4, "moe_topk": 2}),
    "deepseek_v2": ("DeepseekV2Config", "DeepseekV2ForCausalLM", DEEPSEEK),
    "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM", DEEPSEEK),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM", EXPERTS),
}


def step(model: Any, tokens: Any) -> tuple[Any, dict[str, Any]]:
    """Loss and gradients of one batch."""
    model.zero_grad()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def patched(name: str) -> None:
    """A model of tiny sizes, without and then with Liger, from the same weights."""
    import liger_kernel.transformers as liger  # type: ignore[import-not-found]

    transformers = import_module("transformers")
    config, model, sizes = MODELS[name]
    torch.manual_seed(1)
    settings = getattr(transformers, config)(**{**SMALL, **sizes})
    settings._attn_implementation = "eager"
    made = getattr(transformers, model)(settings).float().train()
    tokens = torch.randint(3, 128, (2, 20))
    state = copy.deepcopy(made.state_dict())
    loss, gradients = step(made, tokens)
    getattr(liger, f"apply_liger_kernel_to_{name}")()
    again = getattr(transformers, model)(settings).float().train()
    again.load_state_dict(state)
    found, slopes = step(again, tokens)
    close(found, loss, 1e-5)
    assert slopes.keys() == gradients.keys()
    for key, wanted in gradients.items():
        close(slopes[key], wanted, 1e-4)


PATCHES: dict[str, Check] = {f"apply_liger_kernel_to_{name}": later(patched, name) for name in MODELS}
