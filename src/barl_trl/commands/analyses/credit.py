"""`barl analyze credit`: which credit gives the best gradient, on a model's own rollouts."""

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from ...trainer.barl_fields import BARLFields
from ..console import at_least_one, print_table, progress_bar
from .common import Rows, named, write

COLUMNS = {
    "bias": "bias",
    "quality": "quality",
    "gain": "gain over GRPO",
    "beyond_control": "beyond control",
    "answered": "answers",
    "tokens": "tokens",
    "entropy": "entropy",
}
"""Columns of the table, by the name of the row's field."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.add_argument(
        "models", nargs="+", metavar="MODEL", help="checkpoints along training: folders or Hub ids"
    )
    command.add_argument("--names", nargs="+", metavar="NAME", help="of the models")
    command.add_argument(
        "--data", required=True, metavar="FILE", help="problems with answers: a file or a Hub id"
    )
    command.add_argument("--template", default="auto", help="of the prompts, as in `barl evaluate`")
    command.add_argument("--methods", nargs="+", metavar="NAME", help="default: all")
    command.add_argument("--batches", type=at_least_one, default=16, help="at least 3 (default 16)")
    command.add_argument("--prompts", type=at_least_one, default=8, help="of a batch (default 8)")
    command.add_argument(
        "--num_generations", type=at_least_one, default=8, help="of a prompt (default 8)"
    )
    command.add_argument("--max_completion_length", type=at_least_one, default=1024)
    command.add_argument(
        "--continuations",
        type=int,
        default=4,
        help="of each state, for its Monte-Carlo value; 0: none (default 4)",
    )
    command.add_argument("--step_size", type=at_least_one, default=128)
    command.add_argument("--step_delimiter", metavar="TEXT", help="in place of step_size tokens")
    command.add_argument("--grader", default="math_verify")
    command.add_argument(
        "--parameters",
        metavar="REGEX",
        help="those whose gradients are taken (default: all): a few layers of a large model",
    )
    command.add_argument("--seed", type=int, default=0)


def run(options: argparse.Namespace) -> None:
    """Judge the methods at each checkpoint, and show table and figure."""
    from ...credit.arms import ARMS
    from ...evaluation.credit_judge import COMPARED, Judgement
    from ...report import credit_figure

    unknown = set(options.methods or ()) - set(ARMS)
    if unknown:
        raise ValueError(f"methods must be of {list(ARMS)}, got {sorted(unknown)}.")
    arms = {name: ARMS[name] for name in ARMS if name in (options.methods or ARMS)}
    arms[COMPARED] = ARMS[COMPARED]
    judgement = Judgement(
        batches=options.batches,
        prompts=options.prompts,
        group_size=options.num_generations,
        continuations=options.continuations,
        parameters=options.parameters,
        seed=options.seed,
    )
    models = named(options.names, [Path(model) for model in options.models])
    rows: Rows = []
    with progress_bar() as progress:
        for name, path in models.items():
            task = progress.add_task(name, total=options.batches)
            rows += [
                {"model": name, **row}
                for row in judge(
                    str(path),
                    options,
                    arms,
                    judgement,
                    options.output_dir / name,
                    lambda task=task: progress.advance(task),
                )
            ]
    settings = {k: str(v) for k, v in vars(options).items() if k not in ("run", "output_dir")}
    path = write(options.output_dir / "credit.json", settings, rows)
    credit_figure.draw(path, options.output_dir / "credit.png")
    for name in models:
        print_table(f"Gradients at {name}", [cells(row) for row in rows if row["model"] == name])
    print(f"In {options.output_dir}: credit.json, credit.png, a folder of batches for each model.")


def judge(
    model_name: str, options: argparse.Namespace, arms, judgement, folder: Path, advance
) -> Rows:
    """Judge the arms at a checkpoint."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ...data.loading import load_problems
    from ...evaluation.credit_batches import CreditTask, Problem
    from ...evaluation.credit_judge import collect, verdict
    from ...evaluation.templates import choose_template
    from ...graders import get_grader
    from ...rewards import AccuracyReward
    from ...steps import delimited_steps, fixed_size_steps

    tokenizer: Any = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForCausalLM.from_pretrained(model_name, dtype="auto", device_map="auto")
    template = choose_template(options.template, tokenizer)
    problems, _ = load_problems(options.data, conversational=False, most_parsed=0)
    segmenter = partial(fixed_size_steps, step_size=options.step_size)
    if options.step_delimiter is not None:
        segmenter = partial(
            delimited_steps, decode=tokenizer.decode, delimiter=options.step_delimiter
        )
    task = CreditTask(
        tokenizer,
        AccuracyReward(get_grader(options.grader), options.grader),
        segmenter,
        template.end_ids(tokenizer),
        options.max_completion_length,
        BARLFields(),
    )

    def prompts() -> Iterator[Problem]:
        rows: Any = problems.shuffle(seed=options.seed)
        for row in cycle(rows):
            text = template.prompt(tokenizer, row["prompt"])
            yield Problem(template.encode(tokenizer, text), row["solution"])

    return verdict(collect(model, task, prompts(), arms, judgement, folder, advance=advance))


def cells(row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of an arm's line."""
    found = {"method": row["arm"]}
    for name, title in COLUMNS.items():
        scale = 100 if name == "answered" else 1
        value = row.get(name)
        found[title] = "" if value is None else _estimate([scale * number for number in value])
    correlation = row["correlation"]
    found["correlation"] = "" if correlation is None else f"{correlation:.2f}"
    return found


def _estimate(value: list[float]) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}"
