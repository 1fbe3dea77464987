"""Runs on every process: three groups of four rollouts, of which two processes share the second.

Those of the first process are long and have many hypotheses, those of the second are short and have
few.
"""

import json
import sys
from pathlib import Path

from accelerate import PartialState

from tests.tiny import tiny_model, tiny_tokenizer

from .rollouts import COMPLETIONS, PROBLEMS, config, given_rollouts, trainer

CREDITS = ["rloo", "belief_critic", "barl"]
LONG = [f"{'It is long, very long. ' * n}\\boxed{{{n}}}" for n in (5, 2, 9, 1)]
GIVEN = COMPLETIONS | {"How long?": LONG, "No truth?": ["", "x", r"\boxed{1}", ""]}
ROWS = [
    {"prompt": prompt, "solution": solution}
    for prompt, solution in [("How long?", "9"), ("1+1?", "2"), ("No truth?", "")]
    for _ in range(4)
]


def loudness(completions, **_):
    """Rewards that differ, and none for one rollout."""
    return [None if text == "no idea" else sum(map(ord, text)) % 7 / 7 for text in completions]


def main(folder: str) -> None:
    state, tokenizer = PartialState(cpu=True), tiny_tokenizer()
    size = len(ROWS) // state.num_processes
    start, weights, metrics = state.process_index * size, {}, {}
    for credit in CREDITS:
        args = config(
            Path(folder) / credit,
            credit=credit,
            log_beliefs=True,
            value_normalization="none",
            per_device_train_batch_size=size,
            max_completion_length=256,
        )
        barl_trainer = trainer(
            tiny_model(tokenizer),
            tokenizer,
            args,
            rows=PROBLEMS * 2,
            reward_funcs=loudness,
            rollout_func=given_rollouts(GIVEN, cut_off=[LONG[0], COMPLETIONS["1+1?"][3]]),
        )
        barl_trainer.model.train()
        output = barl_trainer._generate_and_score_completions(ROWS[start : start + size])
        weights[credit] = [
            row[mask.bool()].tolist()
            for row, mask in zip(output["advantages"], output["completion_mask"], strict=True)
        ]
        logged = barl_trainer._metrics["train"].items()
        metrics[credit] = {
            name.removeprefix("barl/"): values[-1]
            for name, values in logged
            if name.startswith("barl/") and "_seconds" not in name
        }
    (Path(folder) / f"{state.process_index}.json").write_text(json.dumps(weights))
    (Path(folder) / f"metrics-{state.process_index}.json").write_text(json.dumps(metrics))
    state.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
