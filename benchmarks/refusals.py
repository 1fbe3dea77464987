"""How often the check of scoring refuses what is right, in thirty families of random weights.

`python benchmarks/refusals.py [FAMILY ...] [--rollouts 200] [--json FILE]` prints a table, in
float32 and in bfloat16: of random rollouts, how many are refused as rows that are trees; and of a
quarter of them, continued by `generate`, how many after its keys and values, and after those of
weights that are 2 % larger now. Only the last are to be refused, all of them.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
from bfloat16 import refusals, stale
from families import ELICITATION, VOCABULARY, tiny_model

from barl_trl.plausibility import Answer, Rollout
from barl_trl.plausibility.checks.model_traits import shared_layout
from barl_trl.plausibility.kv_cache import GenerationCache, GenerationRecorder

FAMILIES = (
    *("apertus", "arcee", "cohere", "cohere2", "ernie4_5", "exaone4", "gemma", "glm4"),
    *("gpt2", "gpt_bigcode", "gpt_neox", "glm", "granite", "granitemoe", "helium", "llama"),
    *("mistral", "mixtral", "nemotron", "olmo2", "olmoe", "persimmon", "phi", "phi3", "qwen2"),
    *("qwen2_moe", "qwen3", "smollm3", "stablelm", "starcoder2"),
)


def random_rollouts(number: int) -> list[Rollout]:
    """Return rollouts of up to 60 tokens and five states, with one to three answers."""
    rng = random.Random(0)

    def ids(least: int, most: int) -> list[int]:
        return [rng.randrange(20, VOCABULARY) for _ in range(rng.randint(least, most))]

    rollouts = []
    for _ in range(number):
        prompt, completion = ids(3, 20), ids(4, 40)
        ends = rng.sample(range(len(completion)), 3)
        states = sorted({len(prompt) + end for end in (0, *ends, len(completion))})
        answers = [Answer(ids(1, 6)) for _ in range(rng.randint(1, 3))]
        rollouts.append(Rollout([*prompt, *completion], states, answers))
    return rollouts


def continued(model: Any, rollout: Rollout) -> tuple[Rollout, GenerationCache | None, int]:
    """Return what the model writes after a rollout's prompt, with the keys and values of that."""
    prompt = torch.tensor([rollout.token_ids[: rollout.state_positions[0]]])
    with GenerationRecorder(model) as recorder:
        row = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=16,
            do_sample=True,
            top_k=0,
            eos_token_id=None,
            pad_token_id=0,
        )[0].tolist()
    states = [prompt.shape[1], len(row)]
    return Rollout(row, states, rollout.answers), recorder.cache([row]), 0


@torch.no_grad()
def measure(family: str, dtype: torch.dtype, rollouts: list[Rollout]) -> dict[str, Any]:
    """Return how many rollouts of a family are refused."""
    model = tiny_model(family).to(dtype)
    refused = refusals(model, rollouts, ELICITATION, autocast=False)
    written = [continued(model, rollout) for rollout in rollouts[: len(rollouts) // 4]]
    caches = [each for each in written if each[1] and shared_layout(model) == "packed"]
    right = stale(model, caches, ELICITATION)
    for parameter in model.parameters():
        parameter.mul_(1.02)
    return {
        "family": family,
        "dtype": str(dtype).removeprefix("torch."),
        "rollouts": len(rollouts),
        "refused": len(refused),
        "caches": len(caches),
        "caches refused": len(right),
        "other weights' refused": len(stale(model, caches, ELICITATION)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How often scoring refuses what is right.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", default=FAMILIES)
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rollouts, records = random_rollouts(options.rollouts), []
    for family in options.families:
        for dtype in (torch.float32, torch.bfloat16):
            records.append(measure(family, dtype, rollouts))
            if len(records) == 1:
                print("|", " | ".join(records[0]), "|\n" + "|---" * len(records[0]) + "|")
            print("|", " | ".join(map(str, records[-1].values())), "|", flush=True)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
