"""Which families of transformers share prefixes, and how far scoring is from naive forwards.

`python benchmarks/families.py [FAMILY ...] [--json FILE] [--timeout SECONDS]` prints a table: every
family of causal language models that the installed transformers has, or those named. Each is a
model of random weights in float32, some ten thousand parameters, with one layer of each kind. What
`answer_log_likelihoods` gives for a group of rollouts is compared with one forward pass of one row,
without padding, for every state and answer. Each family has a process and a time limit of its own.
"""

import argparse
import json
import logging
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from barl_trl.plausibility import Answer, Rollout, answer_log_likelihoods
from barl_trl.plausibility.checks.model_traits import shared_layout

VOCABULARY = 97
LARGEST = 20_000_000
"""Parameters of a model that is not small, whatever its settings are called."""

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

COLUMNS = {
    "shared": ("family", "layout", "difference", "re-encoded"),
    "re-encoded": ("family", "difference", "batches", "why"),
    "not built": ("family", "why"),
    "failed": ("family", "why"),
}
"""What is printed of the families of each outcome."""

REQUIRED = {
    "head_dim": 8,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
}
"""Settings that some configurations leave open though their models do not run without."""

OWN: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
            for kind in ("sliding_attention", "full_attention")
        }
    },
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "dots3_note_text": {
        **{"head_dim": 16, "swa_head_dim": 16, "swa_v_head_dim": 8, "swa_qk_nope_head_dim": 8},
        **{"swa_q_lora_rank": 8, "swa_kv_lora_rank": 8},
        **{"swa_num_attention_heads": 4, "swa_num_key_value_heads": 4},
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "jamba": {
        **{"attn_layer_period": 2, "attn_layer_offset": 1},
        **{"expert_layer_period": 2, "expert_layer_offset": 1},
    },
    "lfm2": {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8},
    "minimax_m3_vl_text": {
        "layer_types": ["full_attention", "minimax_m3_sparse"],
        **{"index_block_size": 4, "index_topk_blocks": 2},
    },
    "qwen4_exp_text": {
        **{"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 8},
        **{"indexer_budget": 8, "indexer_compress_ratio": 2, "ngram_vocab_size_base": 97},
    },
    "reformer": {"axial_pos_shape": [16, 32], "axial_pos_embds_dim": [8, 24]},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
    },
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
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if size > LARGEST:
        raise ValueError(f"its smallest model has {size:,} parameters")
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


def scored(model: Any, method: Any) -> Iterator[torch.Tensor]:
    """Yield the same of [`answer_log_likelihoods`]."""
    found = answer_log_likelihoods(
        model, ROLLOUTS, elicitation_ids=ELICITATION, reduction="sum", method=method
    )
    for i, rollout in enumerate(ROLLOUTS):
        for state in range(len(rollout.state_positions)):
            yield from found.answer_logps[i, state, : len(rollout.answers)].double()[:, None]
        yield found.completion_logps[i, : len(rollout.scored_positions)].double()


class _Said(logging.Handler):
    """What the package says of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@torch.no_grad()
def measure(family: str) -> dict[str, Any]:
    """Return what scoring makes of a family."""
    try:
        model = tiny_model(family)
        expected = torch.cat([*naive(model)])
    except Exception as error:
        return {"outcome": "not built", "why": f"{type(error).__name__}: {error}"}
    if not expected.isfinite().all():
        return {"outcome": "not built", "why": "its logits are not finite"}
    if not torch.equal(expected, torch.cat([*naive(model)])):
        return {"outcome": "not built", "why": "its forward draws"}
    token_ids = ROLLOUTS[0].token_ids
    changed = logps(model, [*token_ids[:-2], token_ids[-2] - 1, token_ids[-1]])
    ahead = (changed - logps(model, token_ids))[:-2].abs().max().item()
    said = _Said()
    logging.getLogger("barl_trl").addHandler(said)
    found = {
        method: (torch.cat([*scored(model, method)]) - expected).abs().max().item()
        for method in ("shared_prefix", "reencode")
    }
    refused = [text for text in said.messages if "cannot share prefixes" in text]
    lengths = [text for text in said.messages if "padding" in text]
    return {
        "outcome": "re-encoded" if refused else "shared",
        "layout": "" if refused else shared_layout(model),
        "why": refused[0].split(": ", 1)[1] if refused else "",
        "equal lengths": bool(lengths),
        "difference": found["shared_prefix"],
        "re-encoded": found["reencode"],
        "ahead": ahead,
    }


def _in_process(family: str, connection: Connection) -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    try:
        connection.send(measure(family))
    except Exception as error:
        connection.send({"outcome": "failed", "why": f"{type(error).__name__}: {error}"})


def record_of(family: str, seconds: float) -> dict[str, Any]:
    """Measure a family in a process of its own, which may take some seconds."""
    receiver, sender = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=_in_process, args=(family, sender))
    process.start()
    sender.close()
    found = {"outcome": "failed", "why": f"it took more than {seconds:.0f} s"}
    try:
        if receiver.poll(seconds):
            found = receiver.recv()
    except EOFError:
        process.join()
        found["why"] = f"its process ended with {process.exitcode}"
    process.kill()
    process.join()
    return {"family": family, **found}


def table(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return records as a Markdown table."""
    rows = [[str(record.get(column, "")) for column in columns] for record in records]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as it is printed."""
    found = dict(record)
    for name in ("difference", "re-encoded"):
        if name in found:
            found[name] = f"{found[name]:.0e}"
    found["batches"] = "of equal length" if record.get("equal lengths") else "padded"
    found["why"] = " ".join(record["why"].split()).replace("|", "\\|").rstrip(".:")[:200]
    if record.get("ahead", 0) > WRONG:
        found["why"] += "; its tokens see later tokens"
    return found


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description="Scoring of every family of causal models.")
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the records")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of a family")
    args = parser.parse_args()
    families = args.families or sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    records = []
    for family in families:
        records.append(record_of(family, args.timeout))
        print(family, records[-1]["outcome"], file=sys.stderr)
    if args.json:
        args.json.write_text(json.dumps(records, indent=1), encoding="utf-8")
    counts = Counter(record["outcome"] for record in records)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {len(records)} "
        f"families: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}\n"
    )
    for outcome, columns in COLUMNS.items():
        some = [shown(record) for record in records if record["outcome"] == outcome]
        if some:
            print(f"{table(some, columns)}\n")
    wrong = [
        record["family"]
        for record in records
        if record["outcome"] == "failed"
        or not max(record.get("difference", 0), record.get("re-encoded", 0)) < WRONG
    ]
    if wrong:
        raise SystemExit(f"Wrong or failed: {', '.join(wrong)}.")


if __name__ == "__main__":
    main()
