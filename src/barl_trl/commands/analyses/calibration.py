"""`barl analyze calibration`: whether a model's beliefs are what it goes on to answer."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...evaluation.responses import read_responses
from ...graders import get_grader
from ...trainer.barl_fields import BARLFields
from ..console import at_least_one, print_table, progress_bar
from ..parsers import printable
from .common import Rows, add_grader_options, write
from .values import model_of

VARIANTS: dict[str, dict[str, Any]] = {
    "likelihood: sum": {"answer_likelihood": "sum"},
    "likelihood: token_mean": {"answer_likelihood": "token_mean"},
    "temperature: 0.5": {"plausibility_temperature": 0.5},
    "temperature: 2": {"plausibility_temperature": 2.0},
}
"""What differs from the default, one thing at a time, beside the elicitations."""

DEFAULT = "default"


def calibration(
    output_dir: Path,
    *,
    responses: Path,
    model: str,
    args: BARLFields,
    options: argparse.Namespace,
) -> Rows:
    """Compare beliefs with continuations; write `calibration.json` and `calibration.png`.

    Args:
        output_dir: Folder for the files.
        responses: Folder of responses.
        model: Checkpoint that believes and goes on: a local folder or a Hub id.
        args: Settings of steps, hypotheses and scoring.
        options: The options of the command.

    Returns:
        The `rows` of `calibration.json`, for each variant and quantity.

    Raises:
        ValueError: A file is missing, or no problem has a usable solution.
    """
    from dataclasses import replace

    import torch

    from ...evaluation.calibration import (
        ELICITATIONS,
        QUANTITIES,
        continued,
        next_turn,
        points,
        summary,
    )
    from ...evaluation.response_values import load
    from ...report import calibration_figure

    problems = read_responses(responses, options.benchmarks)
    groups = [group for found in problems.values() for group in found.values()]
    groups = groups[: options.max_problems]
    grader = get_grader(options.grader, options.extraction)
    loaded, scorer = load(model, args, grader=grader, step_delimiter=options.step_delimiter)
    loaded.eval()
    texts = ELICITATIONS | {"turn": next_turn(scorer.tokenizer)}
    variants = {
        f"elicitation: {n}": {"elicitation": t} for n, t in texts.items() if t and n != "ours"
    }
    scorers = {
        name: replace(scorer, args=replace(args, **fields))
        for name, fields in ({DEFAULT: {}} | variants | VARIANTS).items()
    }
    generator = torch.Generator().manual_seed(options.seed)
    found: dict[str, list[Any]] = {name: [] for name in scorers}
    with progress_bar() as progress:
        for group in progress.track(groups, description=printable(Path(model).name)):
            answers = continued(
                loaded,
                scorer,
                group,
                number=options.continuations,
                max_tokens=options.max_tokens,
                generator=generator,
            )
            for name, other in scorers.items():
                found[name] += points(loaded, other, group, answers, grader)
    if not found[DEFAULT]:
        raise ValueError(f"solution must be a usable answer, got {len(groups)} problems with none.")
    rows: Rows = [
        {"variant": name, "quantity": quantity}
        | summary([p for p in found[name] if p.quantity == quantity], options.continuations)
        for name in scorers
        for quantity in QUANTITIES
    ]
    settings = {
        "model": model,
        "responses": str(responses),
        "problems": len(groups),
        "continuations": options.continuations,
        "max_tokens": options.max_tokens,
        "seed": options.seed,
        "step": options.step_delimiter or f"{args.step_size} tokens",
        "elicitations": texts,
        "grader": grader.label,
    }
    path = write(output_dir / "calibration.json", settings, rows)
    calibration_figure.draw(path, output_dir / "calibration.png")
    return rows


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.add_argument(
        "responses",
        type=Path,
        metavar="DIR",
        help="responses of a model: a folder that `barl evaluate` wrote",
    )
    command.add_argument("--model", help="checkpoint (default: the one that gave the responses)")
    command.add_argument(
        "--benchmarks",
        type=lambda text: text.split(","),
        help="benchmarks, separated by commas (default: all)",
    )
    only = "take only the first N problems"
    command.add_argument("--max_problems", type=at_least_one, metavar="N", help=only)
    samples = "samples from every state, at least 2"
    command.add_argument(
        "--continuations", type=at_least_two, default=16, metavar="N", help=samples
    )
    most = "most tokens of a response"
    command.add_argument("--max_tokens", type=at_least_one, default=1024, metavar="N", help=most)
    command.add_argument("--seed", type=int, default=0, help="seed of the samples")
    size = BARLFields.step_size
    command.add_argument("--step_size", type=at_least_one, default=size, help="tokens of a step")
    command.add_argument(
        "--step_delimiter",
        metavar="TEXT",
        help="text that ends a step; replaces step_size",
    )
    add_grader_options(command)


def at_least_two(text: str) -> int:
    """Parse a number of samples that have a variance."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 2, got {text!r}")
    return int(text)


def run(options: argparse.Namespace) -> None:
    """Run the analysis and show its table."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # this command has its own
    rows = calibration(
        options.output_dir,
        responses=options.responses,
        model=options.model or model_of(options.responses),
        args=BARLFields(step_size=options.step_size),
        options=options,
    )
    print_table("Beliefs beside what the model goes on to answer", _lines(rows))
    files = "calibration.png, calibration.json (each bin)"
    print(printable(f"In {options.output_dir}: {files}."))


def _lines(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault(row["variant"], {"variant": row["variant"]})
        name = "p" if row["quantity"] == "plausibility" else "w_0"
        error = f" ± {row['standard_error']:.3f}" if row["standard_error"] is not None else ""
        line[f"{name} error"] = f"{row['squared_error']:.3f}{error}"
        line[f"{name} gap"] = f"{row['gap']:.3f}"
    return [*lines.values()]
