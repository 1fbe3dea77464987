"""Train an agent that finds out a number, with GRPO and with `bayes`: minutes on a CPU.

"Which number from 1 to 16 is it?" A model of 0.2 M parameters may ask four times "is it at least
x?", with a tool, and then answers. At first it asks at random. Two processes train it from there,
on as many rollouts: one with the outcome relative to the group's (GRPO), one with `bayes`, which
also knows what each reply rules out. `python examples/demo.py [FOLDER [STEPS]]`, or `make demo`.
"""

import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic import number
from barl_trl.synthetic.number import COUNT, NumberGame, number_rows, random_accuracy

QUESTIONS, TEST_GAMES, TEST_SEED = 4, 1024, 10_007
RATES = {"grpo": 5e-4, "bayes": 1e-3}
"""Learning rates of the credits: each has the better of these two in docs/evidence.md."""
ROWS = {
    "secrets found": ("rewards/found_secret/mean", "{:.0%}"),
    "determined by the replies": ("determined", "{:.0%}"),
    "questions": ("questions", "{:.2f}"),
    "entropy at the answer": ("belief_entropy", "{:.0%}"),
}
"""Rows of the table: the metric that each shows, and how."""


def settings(folder: Path, credit: str, steps: int) -> BARLConfig:
    """Return the settings of a training: only the credit and its learning rate differ."""
    return BARLConfig(
        str(folder / credit),
        overwrite_output_dir=True,  # what an earlier run left there is deleted
        credit=credit,
        learning_rate=RATES[credit],
        belief="task",  # of what the game says, not of what the model finds likely
        hypotheses_column="candidates",
        max_steps=steps,
        per_device_train_batch_size=64,  # 8 games with 8 rollouts
        max_completion_length=64,  # of all turns, with what the tool returned
        max_tool_calling_iterations=QUESTIONS,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        max_grad_norm=0.1,  # a rare large gradient ended runs: they stopped to write calls
        gradient_checkpointing=False,
        eval_strategy="steps",
        eval_steps=min(40, steps),
        eval_on_start=True,
        per_device_eval_batch_size=256,
        num_generations_eval=1,
        logging_steps=10,
        log_beliefs=True,  # for barl inspect
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
        seed=0,
    )


class PrintReward(TrainerCallback):
    """Prints a line where the trainer logs."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "reward" in logs:
            print(f"{args.credit:>5}, step {state.global_step:3d}: reward {logs['reward']:.2f}")


def train(folder: Path, credit: str, steps: int) -> tuple[list[dict], dict, dict]:
    """Train an arm; return its curve, and what it measured before and after on all test games."""
    torch.set_num_threads(1)  # the model is so small that more threads are slower
    test_games: Any = Dataset.from_list(number_rows(TEST_GAMES, seed=TEST_SEED))
    trainer = BARLTrainer(
        str(number.NUMBER_MODEL_DIR),
        number.found_secret,
        settings(folder, credit, steps),
        Dataset.from_list(number_rows(steps * 8, seed=0)),
        eval_dataset=test_games.take(min(256, TEST_GAMES)),
        environment_factory=NumberGame,
        callbacks=[PrintReward()],
    )
    trainer.remove_callback(PrinterCallback)
    with torch.random.fork_rng():  # the rollouts do not depend on this evaluation
        before = trainer.evaluate(test_games)
    trainer.train()
    curve = [log for log in trainer.state.log_history if "eval_reward" in log]
    after = trainer.evaluate(test_games)
    trainer.save_model()
    return curve, before, after


def table(columns: dict[str, dict]) -> str:
    """Return what each arm measured, a line for each of `ROWS`."""
    lines = [" " * 26 + "".join(f"{name:>12}" for name in columns)]
    for title, (name, form) in ROWS.items():
        cells = [form.format(measured[f"eval_{name}"]) for measured in columns.values()]
        lines.append(f"{title:<26}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def draw(curves: dict[str, list[dict]], path: Path) -> None:
    """Draw secrets found and questions asked over training."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axis, title in zip(axes, ("secrets found", "questions"), strict=True):
        for credit, curve in curves.items():
            heights = [log[f"eval_{ROWS[title][0]}"] for log in curve]
            axis.plot([log["step"] for log in curve], heights, marker="o", label=credit)
        axis.set(xlabel="optimizer step", ylabel=title)
        axis.set_ylim(bottom=0)
    axes[0].axhline(random_accuracy(QUESTIONS), color="0.6", linestyle=":", label="random asker")
    axes[0].legend()
    figure.savefig(path, dpi=150)


def show(folder: Path, results: dict[str, tuple[list[dict], dict, dict]]) -> None:
    """Print, draw and save what `train` returned for each arm, and write the page of both."""
    columns = {"start": results["grpo"][1]} | {c: after for c, (_, _, after) in results.items()}
    print(f"\nWhich number from 1 to {COUNT} is it? Four questions, one answer, {TEST_GAMES} games")
    print(table(columns))
    print(f"Possible: 100%; asking at random and concluding all: {random_accuracy(QUESTIONS):.0%}.")
    print(f"Standard error over games: at most {0.5 / TEST_GAMES**0.5:.1%}. One seed of training.")
    print("Animals, codes, words, guesses: little or no gain with `bayes`, see docs/evidence.md.")
    curves = {credit: curve for credit, (curve, _, _) in results.items()}
    (folder / "summary.json").write_text(json.dumps({"table": columns, "curves": curves}, indent=1))
    if find_spec("matplotlib"):
        draw(curves, folder / "training.png")
    page = ["barl_trl", "inspect", *(str(folder / credit) for credit in RATES)]  # turn by turn
    subprocess.run([sys.executable, "-m", *page, "--output", str(folder / "inspect")], check=True)


def main(folder: str = "outputs/demo", steps: str = "320") -> None:
    with ProcessPoolExecutor(len(RATES), get_context("spawn")) as pool:
        trained = pool.map(train, repeat(Path(folder)), RATES, repeat(int(steps)))
    show(Path(folder), dict(zip(RATES, trained, strict=True)))


if __name__ == "__main__":
    main(*sys.argv[1:])
