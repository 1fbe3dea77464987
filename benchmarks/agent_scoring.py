"""What scoring costs agents: the share of a step that each source of the belief takes.

`OMP_NUM_THREADS=1 python benchmarks/agent_scoring.py [--steps 16]` prints a Markdown table. An
agent plays the game of numbers of `barl_trl.synthetic.number` in TRL's loop, 64 rollouts of a
step, with each credit in turn, in one process run. The learning rate is 0 and the seed the same, so
that all credits score the same rollouts. The share is the quotient of medians over the steps
of `barl/scoring_seconds` and `step_time`; the first step, in which the model is compared with
re-encoding, is left out. Tokens are what the model was fed.
"""

import argparse
import tempfile
from statistics import fmean, median
from typing import Any

import torch
from datasets import Dataset
from transformers.utils import logging

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, NumberGame, found_secret, number_rows

BELIEFS: dict[str, dict[str, Any]] = {
    "`barl`, the model's belief": {"credit": "barl"},
    "`progress`, the model's belief": {"credit": "progress"},
    "`belief_critic`, the model's belief": {"credit": "belief_critic"},
    "`bayes`, the task's belief": {
        "credit": "bayes",
        "belief": "task",
        "hypotheses_column": "candidates",
    },
}
MEANS = (
    "barl/scoring_tokens",
    "barl/turns_per_rollout",
    "barl/hypotheses_per_prompt",
)


def logs(fields: dict[str, Any], steps: int) -> list[dict[str, float]]:
    """Return what each step but the first one logs."""
    with tempfile.TemporaryDirectory() as folder:
        args = BARLConfig(
            folder,
            max_steps=steps + 1,
            per_device_train_batch_size=64,
            max_completion_length=96,
            max_tool_calling_iterations=4,
            learning_rate=0.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            **fields,
        )
        rows = number_rows(8 * (steps + 1), seed=0)
        trainer = BARLTrainer(
            str(NUMBER_MODEL_DIR),
            found_secret,
            args,
            Dataset.from_list(rows),
            environment_factory=NumberGame,
        )
        trainer.train()
    return [log for log in trainer.state.log_history if "barl/scoring_tokens" in log][1:]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16)
    steps = parser.parse_args().steps
    logging.set_verbosity_error()
    print(f"{torch.get_num_threads()} threads, {steps} steps of 64 rollouts\n")
    print("| belief | share | s of scoring | s of a step | tokens fed | turns | hypotheses |")
    print("|---|---|---|---|---|---|---|")
    for name, fields in BELIEFS.items():
        found = logs(fields, steps)
        scoring = median(log["barl/scoring_seconds"] for log in found)
        step = median(log["step_time"] for log in found)
        means = (fmean(log[key] for log in found) for key in MEANS)
        cells = [f"{scoring / step:.1%}", f"{scoring:.3f}", f"{step:.3f}"]
        cells += [f"{mean:,.3g}" for mean in means]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
