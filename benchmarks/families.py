"""Which families of transformers share prefixes, and how far scoring is from naive forwards.

`python benchmarks/families.py [FAMILY ...] [--json FILE]` prints a table of thirty families of
causal language models, or of those named. Each is a model of random weights in float32, some ten
thousand parameters, with one layer of each kind. What `answer_log_likelihoods` gives for a group of
rollouts is compared with one forward pass of one row, without padding, for every state and answer.
"""

import argparse
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig

from barl_trl import Answer, Rollout, answer_log_likelihoods

FAMILIES = (
    *("apertus", "cohere2", "deepseek_v3", "exaone4", "falcon_h1", "gemma", "gemma2"),
    *("gemma3_text", "glm4", "gpt2", "gpt_neox", "gpt_oss", "granite", "granitemoe", "helium"),
    *("jamba", "lfm2", "llama", "mamba2", "mistral", "mixtral", "nemotron", "olmo2", "olmoe"),
    *("phi3", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "smollm3"),
)
VOCABULARY = 97
WRONG = 1e-3
"""Nats: float32 rounds less."""

SIZES = (
    (r"vocab", VOCABULARY),
    (r"token_id$|_index$", 3),
    (r"per_tok$|top_?k$|moe_k$", 2),
    (r"bucket", 16),
    (r"group", 2),
    (r"layers?(_|$)|num_blocks", 2),
    (r"experts$|expert_num", 4),
    (r"(kv|key_value)_heads|linear_num_key_heads", 2),
    (r"heads?$|heads_", 4),
    (r"head_dim|head_size|d_head|dim_head|kv_channels|_rank$|d_rel|state|chunk|rotary_dim", 8),
    (r"window|local_attention", 12),
    (r"intermediate|ffn|dim_ff|dff|d_inner|feed_forward", 64),
    (r"position|n_ctx|seq_len|context_length", 512),
    (r"hidden|d_model|n_embd|embed|_dim$|width|d_ssm|dim_model|_size$", 32),
)
"""The most that a setting whose name matches may be; the first match counts."""

REQUIRED = {
    "head_dim": 8,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
}
"""Settings that some configurations leave open though their models do not run without."""

OWN: dict[str, dict[str, Any]] = {
    "jamba": {
        **{"attn_layer_period": 2, "attn_layer_offset": 1},
        **{"expert_layer_period": 2, "expert_layer_offset": 1},
    },
    "lfm2": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "mamba2": {"num_heads": 8},
}
"""Settings of families whose sizes depend on each other."""


def tiny_settings(config_class: type[PreTrainedConfig]) -> dict[str, Any]:
    """Return settings of a small model: small numbers, and a layer of each kind."""
    default: Any = config_class()
    default.allow_global_per_layer_attribute_access = True
    found: dict[str, Any] = {}
    for field in fields(config_class):
        name, value = field.name, getattr(default, field.name, None)
        if name in default.sub_configs and isinstance(value, PreTrainedConfig):
            found[name] = {"model_type": value.model_type, **tiny_settings(type(value))}
        elif type(field.default) is int:
            found[name] = _smaller(name, field.default)
        elif value is None and name in REQUIRED:
            found[name] = REQUIRED[name]
    found |= _layers(default)
    heads, shared = "num_attention_heads", "num_key_value_heads"
    if {heads, shared} <= {*found} and getattr(default, heads) == getattr(default, shared):
        found[shared] = found[heads]
    if hasattr(default, "is_decoder"):
        found["is_decoder"] = True
    return found | OWN.get(default.model_type, {})


def _smaller(name: str, value: int) -> int:
    sizes = (size for pattern, size in SIZES if re.search(pattern, name))
    return min(value, next(sizes, value))


def _layers(default: Any) -> dict[str, Any]:
    """Return the settings that have a value for each layer, of one layer of each kind."""
    number = getattr(default, "num_hidden_layers", None)
    lists = {
        field.name: value
        for field in fields(default)
        if isinstance(value := getattr(default, field.name, None), list | tuple)
        and len(value) == number
    }
    if not lists:
        return {}
    kinds = list(zip(*lists.values(), strict=True))
    kept = [i for i, kind in enumerate(kinds) if kinds.index(kind) == i][:8]
    kept = kept if len(kept) > 1 else [0, 1]
    names = [field.name for field in fields(default)]
    counts = [name for name in names if re.fullmatch(r"n(um)?_(hidden_)?layers?", name)]
    found: dict[str, Any] = {}
    if shared := getattr(default, "num_kv_shared_layers", 0):
        kept, shared = kept * 2, len(kept)
        found["num_kv_shared_layers"] = shared
    for name, values in lists.items():
        some = [values[i] for i in kept]
        found[name] = [_smaller(name, v) if type(v) is int else v for v in some]
    return found | dict.fromkeys(counts, len(kept))


def tiny_model(family: str) -> Any:
    """Return a model of random weights whose log-probabilities differ by nats."""
    config = CONFIG_MAPPING[family](**tiny_settings(CONFIG_MAPPING[family]))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def _ids(count: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCABULARY, (count,), generator=generator).tolist()


ELICITATION = _ids(4, 0)
PROMPT = _ids(22, 1)
ANSWERS = [Answer(_ids(5, 2), 1), Answer(_ids(3, 3)), Answer([*_ids(5, 2)[:3], 30], 1)]
ROLLOUTS = [
    Rollout(
        [*PROMPT, *_ids(length, 10 + length)],
        [*range(len(PROMPT), len(PROMPT) + length, 8), len(PROMPT) + length],
        ANSWERS,
        score_from=len(PROMPT),
    )
    for length in (9, 20, 33)
]


def logps(model: Any, token_ids: Sequence[int]) -> torch.Tensor:
    """Return the log-probability of each token but the first: one row, no padding."""
    logits = model(input_ids=torch.tensor([token_ids[:-1]]), use_cache=False).logits[0].double()
    return logits.log_softmax(-1).gather(-1, torch.tensor(token_ids[1:])[:, None])[:, 0]


def naive(model: Any) -> Iterator[torch.Tensor]:
    """Yield what scoring gives: of each rollout its answers' log-likelihoods and its own tokens."""
    for rollout in ROLLOUTS:
        for position in rollout.state_positions:
            context = [*rollout.token_ids[:position], *ELICITATION]
            for answer in rollout.answers:
                found = logps(model, [*context, *answer.token_ids])
                yield found[len(context) - 1 + answer.score_from :].sum()[None]
        yield logps(model, rollout.token_ids)[len(PROMPT) - 1 :]


def scored(model: Any, method: Any) -> tuple[torch.Tensor, int]:
    """Return the same of [`answer_log_likelihoods`], and the tokens that it feeds."""
    found = answer_log_likelihoods(
        model, ROLLOUTS, elicitation_ids=ELICITATION, reduction="sum", method=method
    )
    numbers = []
    for i, rollout in enumerate(ROLLOUTS):
        for state in range(len(rollout.state_positions)):
            numbers.append(found.answer_logps[i, state, : len(rollout.answers)])
        numbers.append(found.completion_logps[i, : len(rollout.scored_positions)])
    return torch.cat(numbers).double(), found.num_tokens


@torch.no_grad()
def measure(family: str) -> dict[str, Any]:
    """Return what scoring makes of a family."""
    model = tiny_model(family)
    expected = torch.cat([*naive(model)])
    shared, tokens = scored(model, "shared_prefix")
    reencoded, most = scored(model, "reencode")
    return {
        "family": family,
        "way": "prefixes are shared" if tokens < most else "re-encoded",
        "difference": (shared - expected).abs().max().item(),
        "re-encoded": (reencoded - expected).abs().max().item(),
    }


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description="Scoring of families of causal models.")
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the records")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}; differences in nats"
    )
    print("\n| family | way | difference | with `scoring_method: reencode` |\n|---|---|---|---|")
    records = []
    for family in args.families or FAMILIES:
        records.append(found := measure(family))
        differences = f"{found['difference']:.0e} | {found['re-encoded']:.0e}"
        print(f"| {family} | {found['way']} | {differences} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(records, indent=1), encoding="utf-8")
    wrong = [r["family"] for r in records if max(r["difference"], r["re-encoded"]) > WRONG]
    if wrong:
        raise SystemExit(f"Wrong: {', '.join(wrong)}.")


if __name__ == "__main__":
    main()
