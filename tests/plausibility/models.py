"""Models of a few thousand parameters, one of each kind that attends in its own way.

Two layers: the least in which what one token sees reaches another.
"""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM

from barl_trl.plausibility import comparison
from barl_trl.plausibility.rows import Feeding

from .cases import VOCAB

SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
HYBRID = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 12}
CHUNKED = {
    "layer_types": ["chunked_attention", "full_attention"],
    "attention_chunk_size": 12,
    "attn_temperature_tuning": False,
    "num_local_experts": 2,
    "intermediate_size_mlp": 48,
}
EXPERTS = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "shared_expert_intermediate_size": 16,
}
SHARED = {
    "qwen2": {},
    "qwen3": {},
    "llama": {},
    "gpt2": GPT2,
    "gpt_neox": {},
    "mistral": {"sliding_window": 12},
    "mixtral": {**EXPERTS, "sliding_window": 12, "output_router_logits": True},
    "gemma2": {**HYBRID, "attn_implementation": "eager"},
    "gemma3_text": HYBRID,
    "gpt_oss": {**EXPERTS, **HYBRID, "attn_implementation": "eager"},
    "llama4_text": CHUNKED,
}
REENCODED = {
    "qwen3_next": {**EXPERTS, **LINEAR},
    "mamba": {"state_size": 8, "attn_implementation": None},
    "bloom": {"n_layer": 2, "n_head": 4, "attn_implementation": None},
    "gpt_neo": {
        "attention_types": [[["global", "local"], 1]],
        "num_layers": 2,
        "num_heads": 4,
        "window_size": 12,
        "attn_implementation": None,
    },
}
QUICK = {"gemma3_text", "gpt2", "gpt_oss", "llama4_text", "mistral", "mixtral", "phi3", "qwen2"}
"""A family for each way to attend, to place tokens and to choose experts."""


def few_are_quick(families):
    """The families as parameters of a test, which is slow with most of them."""
    slow = pytest.mark.slow
    return [name if name in QUICK else pytest.param(name, marks=slow) for name in families]


def make(family, attn_implementation="sdpa", **overrides):
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SMALL, **overrides})
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attn_implementation)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def adapted(model):
    """The model with a LoRA adapter that changes its values."""
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj", "lm_head"], task_type="CAUSAL_LM")
    wrapped = get_peft_model(model, config)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return wrapped.eval()


def limited(model, most):
    """The model, with memory for so many tokens."""

    def hook(_, args, kwargs):
        if kwargs["input_ids"].numel() > most:
            raise torch.OutOfMemoryError("out of memory.")

    model.register_forward_pre_hook(hook, with_kwargs=True)
    return model


def trusted(model):
    """The model, as if it had been compared with re-encoding."""
    comparison._chosen[model] = {"shared_prefix": Feeding("packed")}
    return model
