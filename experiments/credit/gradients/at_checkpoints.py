"""`python -m experiments.credit gradients`: which credit's gradient is best, at checkpoints."""

import argparse
import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import datasets
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.commands.analyze.common import Rows, add_grader_options, named, write
from barl_trl.commands.shell.console import (
    at_least_one,
    print_table,
    progress_bar,
    refuse_overwriting,
)
from barl_trl.commands.shell.parsers import printable
from barl_trl.data import load_problems
from barl_trl.evaluation.checkpoints import checkpoint_id
from barl_trl.evaluation.generation.templates import choose_template
from barl_trl.graders import get_grader
from barl_trl.rewards import AccuracyReward
from barl_trl.steps import segmenter_of
from barl_trl.trainer.barl_fields import BARLFields

from ..arms import ARMS, CreditArm
from ..batches import CreditTask, TokenizedProblem, settings_of
from . import figure
from .judge import COMPARED, Judgement, collect, verdict

COSINES = {"bias": "bias", "quality": "quality", "gain": "vs GRPO", "beyond_control": "control"}
EFFECTS = {"answered": "answers", "tokens": "tokens", "entropy": "entropy"}
"""Columns of the two tables, by the row's field that each one shows."""
TASK = (
    *("data", "template", "max_completion_length", "step_size", "step_delimiter"),
    *("grader", "extraction"),
)
"""Options that say what a model is judged on."""
FIELDS = ("max_completion_length", "step_size", "extraction")
"""Options in [`TASK`] that are fields of [`BARLFields`]."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    command.add_argument(
        "models", nargs="+", metavar="MODEL", help="checkpoints along training: folders or Hub ids"
    )
    command.add_argument(
        "--names",
        nargs="+",
        metavar="NAME",
        help="names of the models (default: those of the folders)",
    )
    command.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="problems with true answers: a file or a Hub id",
    )
    command.add_argument("--template", default="auto", help="prompt, as in `barl evaluate`")
    command.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="credits by name or dotted path (default: those of docs/credit-evidence.md)",
    )
    command.add_argument(
        "--batches", type=at_least_one, default=16, help="rollout batches, at least 3"
    )
    command.add_argument("--prompts", type=at_least_one, default=8, help="prompts of a batch")
    command.add_argument(
        "--num_generations", type=at_least_one, default=8, help="rollouts of a prompt"
    )
    command.add_argument(
        "--max_completion_length",
        type=at_least_one,
        default=1024,
        help="most tokens of a rollout",
    )
    command.add_argument(
        "--continuations",
        type=int,
        default=4,
        help="samples from each state, for its Monte-Carlo value; 0: none",
    )
    command.add_argument("--step_size", type=at_least_one, default=128, help="tokens of a step")
    command.add_argument(
        "--step_delimiter", metavar="TEXT", help="text that ends a step; replaces step_size"
    )
    add_grader_options(command)
    command.add_argument(
        "--parameters",
        metavar="REGEX",
        help="names of the parameters whose gradients are taken (default: all)",
    )
    command.add_argument("--seed", type=int, default=0, help="seed of the rollouts")


def run(options: argparse.Namespace) -> None:
    """Judge the methods at each checkpoint, and show tables and figure."""
    _check(options)
    files = [options.output_dir / f"credit.{kind}" for kind in ("json", "png")]
    refuse_overwriting(files, [options.data])
    names = dict.fromkeys([COMPARED, *(options.methods or ARMS)])
    arms = {name: ARMS.get(name) or CreditArm(name) for name in names}
    for arm in arms.values():
        settings_of(arm, _fields(options))  # a mistake is known before a model is loaded
    judgement = Judgement(
        batches=options.batches,
        prompts=options.prompts,
        group_size=options.num_generations,
        continuations=options.continuations,
        parameters=options.parameters,
        seed=options.seed,
    )
    transformers.utils.logging.disable_progress_bar()  # this command has its own
    datasets.disable_progress_bars()
    models = named(options.names, [Path(model) for model in options.models])
    rows: Rows = []
    with progress_bar() as progress:
        for name, path in models.items():
            task = progress.add_task(printable(name), total=options.batches)
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
    figure.draw(path, options.output_dir / "credit.png")
    for name in models:
        of_model = [row for row in rows if row["model"] == name]
        print_table(f"Gradients at {name}", [*map(cosines, of_model)], align="right")
        title = f"A step along them at {name}, where plain RL gains a point"
        print_table(title, [*map(changes, of_model)], align="right")
    files = "credit.json, credit.png, a folder of batches for each model"
    print(printable(f"In {options.output_dir}: {files}."))


def _check(options: argparse.Namespace) -> None:
    for option, least, reason in (
        ("batches", 3, "errors come from leaving one out"),
        ("num_generations", 2, "rollouts of a prompt are compared with one another"),
        ("continuations", 0, "0 is none"),
    ):
        value = getattr(options, option)
        if value < least:
            raise ValueError(f"--{option} must be at least {least}, got {value}: {reason}.")
    try:
        re.compile(options.parameters or "")
    except re.error as error:
        raise ValueError(
            f"--parameters must be a regular expression, got {options.parameters!r}: {error}."
        ) from None


def _fields(options: argparse.Namespace) -> BARLFields:
    return BARLFields(**{name: getattr(options, name) for name in FIELDS})


def judge(
    model_name: str,
    options: argparse.Namespace,
    arms: Mapping[str, CreditArm],
    judgement: Judgement,
    folder: Path,
    advance: Callable[[], None],
) -> Rows:
    """Judge the arms at a checkpoint, and return a row for each."""
    tokenizer: Any = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForCausalLM.from_pretrained(model_name, dtype="auto", device_map="auto")
    template = choose_template(options.template, tokenizer)
    problems, _ = load_problems(options.data, conversational=False, most_parsed=0)
    segmenter = segmenter_of(
        tokenizer.decode, step_size=options.step_size, delimiter=options.step_delimiter
    )
    task = CreditTask(
        tokenizer,
        AccuracyReward(get_grader(options.grader, options.extraction), options.grader),
        segmenter,
        template.end_ids(tokenizer),
        options.max_completion_length,
        _fields(options),
    )

    def prompts() -> Iterator[TokenizedProblem]:
        rows: Any = problems.shuffle(seed=options.seed)
        for row in cycle(rows):
            text = template.prompt(tokenizer, row["prompt"])
            yield TokenizedProblem(template.encode(tokenizer, text), row["solution"])

    about = {name: getattr(options, name) for name in TASK}
    about["checkpoint"] = checkpoint_id(model_name)
    return verdict(
        collect(model, task, prompts(), arms, judgement, folder, about=about, advance=advance)
    )


def cosines(row: Mapping[str, Any]) -> dict[str, str]:
    """Return an arm's cells of the table of cosines."""
    cells = {"method": row["arm"]}
    for name, title in COSINES.items():
        is_difference = name in ("gain", "beyond_control")
        cells[title] = _with_error(row[name], sign="+" * is_difference) if name in row else ""
    correlation = row["correlation"]
    return cells | {"corr.": "" if correlation is None else _short(correlation)}


def changes(row: Mapping[str, Any]) -> dict[str, str]:
    """Return an arm's cells of the table of what it does to other quantities."""
    cells = {"method": row["arm"]}
    for name, title in EFFECTS.items():
        points = 100 if name == "answered" else 1
        cells[title] = _with_error([points * number for number in row[name]], sign="+")
    return cells


def _with_error(value: list[float], *, sign: str = "") -> str:
    number, error = value
    return "noise" if math.isnan(number) else f"{_short(number, sign)}±{_short(error)}"


def _short(number: float, sign: str = "") -> str:
    """Write a number with two decimals, and without the 0 before the point."""
    return "?" if math.isnan(number) else re.sub(r"\b0\.", ".", f"{number:{sign}.2f}")
