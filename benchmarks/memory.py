"""How much memory a scoring pass takes: the estimate of `plausibility.budget` beside peaks.

`python benchmarks/memory.py [--quick] [--json FILE]` prints a table. Without gradients only one
layer's activations live at a time, so a model of one layer with the widths and the vocabulary of a
large one has its peak. Measured are rollouts of the paper's shape (512 + 1024 tokens, 9 states, 6
answers of 8 tokens), answers alone and with the completions' own log-probabilities; the profiler
counts what the allocator hands out. Then, by arithmetic: what 80 GB leave on 8 GPUs when weights
and gradients are bfloat16 and Adam's states and the master weights float32, and how many rows the
automatic budget puts into a pass.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from scoring import DEVICE, ELICITATION, Shape, make_rollouts, peak_bytes
from transformers import Qwen2Config, Qwen2ForCausalLM

from barl_trl.plausibility.answer_logps import answer_log_likelihoods
from barl_trl.plausibility.budget import MAX_TOKENS, MEMORY_SHARE, scoring_bytes, tokens_within

GB = 2**30
PROCESSES = 8
MODELS = {
    "Qwen2.5 1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12}
    | {"num_key_value_heads": 2, "vocab_size": 151936, "num_hidden_layers": 28},
    "Qwen2.5 7B": {"hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28}
    | {"num_key_value_heads": 4, "vocab_size": 152064, "num_hidden_layers": 28},
}
NARROW = {"hidden_size": 192, "intermediate_size": 1120, "vocab_size": 25344}
QUICK = {"tiny": MODELS["Qwen2.5 1.5B"] | NARROW}
PARAMETERS = {"Qwen2.5 1.5B": 1.54e9, "Qwen2.5 7B": 7.62e9}


def measured(widths: dict, shape: Shape, *, score_completions: bool) -> tuple[int, int]:
    """Peak bytes of a pass, and its tokens."""
    torch.manual_seed(0)
    config = Qwen2Config(**{**widths, "num_hidden_layers": 1}, tie_word_embeddings=True)
    model = Qwen2ForCausalLM(config).to(DEVICE, torch.bfloat16).eval()
    group = make_rollouts(replace(shape, vocabulary=widths["vocab_size"]))
    if score_completions:
        group = [replace(r, score_from=r.state_positions[0]) for r in group]
    found = []

    def score() -> None:
        found.append(
            answer_log_likelihoods(
                model, group, elicitation_ids=ELICITATION, max_tokens=MAX_TOKENS
            ).num_tokens
        )

    score()  # the model's check
    return peak_bytes(score), found[-1]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Estimated and measured memory of a scoring pass.")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a tiny model with a large vocabulary, short completions",
    )
    parser.add_argument("--json", metavar="FILE", help="where to write one record per point")
    options = parser.parse_args()
    records = []
    shapes = Shape(prompt=128, completion=128) if options.quick else Shape()
    print("| model | read | tokens | estimate, MB | measured | measured : estimate |")
    print("|---" * 6 + "|")
    for name, widths in (QUICK if options.quick else MODELS).items():
        config = Qwen2Config(**widths)
        for rollouts, score_completions in ((2, False), (2, True), (8, True)):
            shape = replace(shapes, rollouts=rollouts)
            peak, tokens = measured(widths, shape, score_completions=score_completions)
            estimate = scoring_bytes(config, torch.bfloat16, tokens)
            what = "answers and completions" if score_completions else "answers"
            record = {"model": name, "read": what, "tokens": tokens}
            record |= {"estimate": estimate, "measured": peak}
            records.append(record)
            mb = f"{estimate / 2**20:.0f} | {peak / 2**20:.0f}"
            print(f"| {name} | {what} | {tokens} | {mb} | {peak / estimate:.2f} |")
    print("\n| model, 8 GPUs of 80 GB | resident, GB | free, GB | tokens per pass | rows |")
    print("|---" * 5 + "|")
    for name, count in PARAMETERS.items():
        config = Qwen2Config(**MODELS[name])
        for stage, resident in (
            ("ZeRO-2", count * (2 + 14 / PROCESSES)),
            ("ZeRO-3", count * 16 / PROCESSES),
        ):
            free = 80 * GB - resident
            fit = tokens_within(config, torch.bfloat16, int(MEMORY_SHARE * free))
            budget = min(MAX_TOKENS, fit)
            record = {"model": name, "stage": stage, "resident": resident, "tokens": budget}
            records.append(record)
            cells = f"{resident / GB:.0f} | {free / GB:.0f} | {budget} | {budget // 1950}"
            print(f"| {name}, {stage} | {cells} |")
    if options.json:
        Path(options.json).write_text(json.dumps(records, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
