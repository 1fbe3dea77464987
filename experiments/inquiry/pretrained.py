"""SmolLM2-135M on inquiries in words: a warm start, two arms, and their report.

`python -m experiments.inquiry.pretrained MODEL`, with the folder of
examples/real_model/README.md (a clone). Hours on two cores, minutes on a GPU; each
training is a file.
"""

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from barl_trl import BARLConfig, BARLTrainer

from ..tools import FileJob, paired, read_json, run_jobs, table, with_error, write_json
from .arms import ARMS
from .dialogue import DIALOGUES, Dialogue, Player, end_ids, found

COMPARED = ("grpo", "bayes-0.3")
TEST_SEED, WARM_SEED = 10_000, 20_000
TESTS = 128
"""Games of an evaluation."""
MEASURED = ("accuracy", "questions", "unanswered")


def warm_up(path: Path, model: str, game: str, steps: int) -> None:
    """Show a model games of a random asker, and save it; `path` is a file in its folder."""
    rng, dialogue = random.Random(WARM_SEED), DIALOGUES[game]
    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = []
    for _ in range(steps * 16):
        prompt, lines = dialogue.asker_text(rng)
        ids, own = tokenizer.encode(prompt), []
        own += [0] * len(ids)
        for line, is_own in lines:
            words = tokenizer.encode(line, add_special_tokens=False)
            ids += words
            own += [int(is_own)] * len(words)
        labels = [token if mine else -100 for token, mine in zip(ids, own, strict=True)]
        rows.append({"input_ids": ids, "labels": labels})
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(path.parent),
            max_steps=steps,
            per_device_train_batch_size=16,
            learning_rate=1e-4,
            lr_scheduler_type="linear",
            warmup_steps=2,
            logging_steps=5,
            save_strategy="no",
            report_to="none",
            bf16=False,
            gradient_checkpointing=False,
            dataset_kwargs={"skip_prepare_dataset": True},
            model_init_kwargs={"dtype": "float32"},
            seed=WARM_SEED,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()
    write_json(path, {"model": model, "game": game, "steps": steps})


def measured(model: Any, tokenizer: Any, dialogue: Dialogue) -> dict[str, float]:
    """Play games with new prompts, and return `accuracy`, `questions` and `unanswered`."""
    rows = dialogue.rows(TESTS, seed=TEST_SEED)
    secrets = {row["prompt"]: row["solution"] for row in rows}
    torch.manual_seed(TEST_SEED)
    played = Player(dialogue, secrets).play(model.eval(), tokenizer, [*secrets])
    right = [a == secret for a, secret in zip(played["answer"], secrets.values(), strict=True)]
    return {
        "accuracy": fmean(right),
        "questions": fmean(played["num_questions"]),
        "unanswered": fmean(answer is None for answer in played["answer"]),
    }


def train_into(path: Path, warm: Path, game: str, arm: str, seed: int, steps: int) -> None:
    """Train an arm from the warm model, and write what it reached."""
    started, dialogue = time.process_time(), DIALOGUES[game]
    tokenizer = AutoTokenizer.from_pretrained(warm)
    model: Any = AutoModelForCausalLM.from_pretrained(warm, dtype=torch.float32)
    rows = dialogue.rows(4 * steps, seed=seed)
    args = BARLConfig(
        str(path.with_suffix("")),
        hypotheses_column="candidates",
        max_steps=steps,
        per_device_train_batch_size=8,  # several trainings share a GPU's memory
        gradient_accumulation_steps=4,
        num_generations=8,
        max_completion_length=(dialogue.most_questions + 1) * 32,
        step_size=(dialogue.most_questions + 1) * 32,
        generation_kwargs={"eos_token_id": end_ids(tokenizer)},
        learning_rate=2e-5,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=2,
        logging_steps=1,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        bf16=False,
        seed=seed,
        **ARMS[arm].fields,
    )
    trainer = BARLTrainer(
        model,
        found,
        args,
        Dataset.from_list(rows),
        processing_class=tokenizer,
        rollout_func=Player(dialogue, {row["prompt"]: row["solution"] for row in rows}),
        observation_likelihood=dialogue.observation_likelihood,
    )
    before = measured(trainer.model, tokenizer, dialogue)
    trainer.train()
    write_json(
        path,
        {
            "game": game,
            "arm": arm,
            "seed": seed,
            "before": before,
            "after": measured(trainer.model, tokenizer, dialogue),
            "rewards": [log["reward"] for log in trainer.state.log_history if "reward" in log],
            "cpu_seconds": round(time.process_time() - started),
        },
    )


def report(folder: Path, seeds: int) -> str:
    """Return the report of the trainings in a folder, in Markdown."""
    blocks = ["# A pretrained model on inquiries in words"]
    for game in DIALOGUES:
        runs = {arm: [*_runs(folder, game, arm, seeds)] for arm in COMPARED}
        if not all(runs.values()):
            continue
        rows = []
        for arm, of_arm in runs.items():
            for when in ("before", "after"):
                cells = [with_error([run[when][name] for run in of_arm], 3) for name in MEASURED]
                rows.append([f"{ARMS[arm].title}, {when}", *cells])
        first, second = ([100 * run["after"]["accuracy"] for run in runs[arm]] for arm in COMPARED)
        blocks += [
            f"## {game}, {min(len(first), len(second))} seeds",
            table(["arm", *MEASURED], rows),
            f"{ARMS[COMPARED[1]].title} is ahead by {paired(second, first)} points.",
        ]
    return "\n\n".join(blocks) + "\n"


def _runs(folder: Path, game: str, arm: str, seeds: int) -> Iterator[dict[str, Any]]:
    for seed in range(seeds):
        path = folder / game / f"{arm}-{seed}.json"
        if path.exists():
            yield read_json(path)


def main(argv: list[str] | None = None) -> None:
    """Warm the model up for each game, train both arms, and write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.inquiry.pretrained",
        description="Trains a pretrained model on inquiries in words.",
    )
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("--games", nargs="+", choices=DIALOGUES, default=[*DIALOGUES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="steps of 32 rollouts")
    parser.add_argument("--warm_steps", type=int, default=40, help="steps of 16 games")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/inquiry-pretrained"))
    options = parser.parse_args(argv)
    folder = options.output_dir
    warm = {game: folder / game / "warm" / "warm.json" for game in options.games}
    run_jobs(
        "warm start",
        [
            FileJob(path, warm_up, (options.model, game, options.warm_steps))
            for game, path in warm.items()
        ],
    )
    run_jobs(
        "arms",
        [
            FileJob(
                folder / game / f"{arm}-{seed}.json",
                train_into,
                (path.parent, game, arm, seed, options.steps),
            )
            for seed in range(options.seeds)
            for game, path in warm.items()
            for arm in COMPARED
        ],
    )
    page = folder / "report.md"
    page.write_text(report(folder, options.seeds), encoding="utf-8")
    print(f"In {folder}: {page.name}, the warm models, and each training's file.")


if __name__ == "__main__":
    main()
