"""Runs on every process: three groups of four agents, of which two processes share the second."""

import json
import sys
from pathlib import Path

from accelerate import PartialState
from datasets import Dataset

from .playing import call, played, speaking
from .test_agents import agent
from .test_beliefs import KnowingGuess

TRUTHS = [3, 5, 6]
ROWS = [
    {
        "prompt": [{"role": "user", "content": f"Game {truth}"}],
        "solution": str(truth),
        "numbers": [*map(str, range(truth + 2))],
    }
    for truth in TRUTHS
    for _ in range(4)
]
PLAYS = [
    [*(call("compare", number=k) for k in range(n % 3)), call("submit", number=n % 7), "Done."]
    for n in range(12)
]
CREDITS = ["barl", "belief_critic", "bayes"]
BENCHMARK = ROWS[:11]
"""It does not divide by two: the second process repeats its last problem."""


def main(folder: str) -> None:
    state = PartialState(cpu=True)
    size = len(ROWS) // state.num_processes
    here = slice(state.process_index * size, (state.process_index + 1) * size)
    weights = {}
    for credit in CREDITS:
        trainer = agent(
            Path(folder) / credit,
            rows=ROWS,
            reward_funcs=[],
            environment_factory=KnowingGuess,
            credit=credit,
            belief="task" if credit == "bayes" else "model",
            hypotheses_column="numbers" if credit == "bayes" else None,
            per_device_train_batch_size=size,
            per_device_eval_batch_size=size,
            benchmarks={"games": Dataset.from_list(BENCHMARK)},
        )
        output = played(trainer, ROWS[here], PLAYS[here])
        lengths = output["completion_mask"].sum(dim=1)
        weights[credit] = [
            row[:n].tolist() for row, n in zip(output["advantages"], lengths, strict=True)
        ]
    (Path(folder) / f"{state.process_index}.json").write_text(json.dumps(weights))
    speaking(trainer.model, trainer._tokenizer, PLAYS[here])
    metrics = trainer.evaluate()
    (Path(folder) / f"metrics-{state.process_index}.json").write_text(json.dumps(metrics))
    state.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
