"""`python -m experiments.calibration`: whether a model's beliefs are what it goes on to answer."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from barl_trl.commands.analyze.common import Rows, add_grader_options, write
from barl_trl.commands.analyze.values import model_of
from barl_trl.commands.shell.console import at_least_one, print_table, progress_bar
from barl_trl.commands.shell.parsers import OneLineParser, printable
from barl_trl.evaluation.beliefs.response_values import load
from barl_trl.evaluation.responses import read_responses
from barl_trl.graders import get_grader
from barl_trl.trainer.config import BARLConfig

from ..entry import ended_in_one_line
from . import figure
from .points import ELICITATIONS, QUANTITIES, continued, next_turn, points, summary

PROG = "python -m experiments.calibration"
VARIANTS: dict[str, dict[str, Any]] = {
    "likelihood: sum": {"answer_likelihood": "sum"},
    "likelihood: token_mean": {"answer_likelihood": "token_mean"},
    "temperature: 0.5": {"plausibility_temperature": 0.5},
    "temperature: 2": {"plausibility_temperature": 2.0},
}
"""Settings of the variants that differ from the default by another thing than the elicitation."""
DEFAULT = "default"


def calibration(options: argparse.Namespace) -> Rows:
    """Compare beliefs with continuations; write `calibration.json` and `calibration.png`.

    Args:
        options: The options of the command.

    Returns:
        The `rows` of `calibration.json`, for each variant and quantity.

    Raises:
        ValueError: A file is missing, or no problem has a usable solution.
    """
    model = options.model or model_of(options.responses)
    fields = BARLConfig(bf16=False, step_size=options.step_size)
    problems = read_responses(options.responses, options.benchmarks)
    groups = [group for of_benchmark in problems.values() for group in of_benchmark.values()]
    groups = groups[: options.max_problems]
    grader = get_grader(options.grader, options.extraction)
    loaded, scorer = load(model, fields, grader=grader, step_delimiter=options.step_delimiter)
    loaded.eval()
    texts = ELICITATIONS | {"turn": next_turn(scorer.tokenizer)}
    variants = {
        f"elicitation: {n}": {"elicitation": t} for n, t in texts.items() if t and n != "ours"
    }
    scorers = {
        name: replace(scorer, args=replace(fields, **changed))
        for name, changed in ({DEFAULT: {}} | variants | VARIANTS).items()
    }
    generator = torch.Generator().manual_seed(options.seed)
    points_of: dict[str, list[Any]] = {name: [] for name in scorers}
    with progress_bar() as progress:
        for group in progress.track(groups, description=printable(Path(model).name)):
            continuations = continued(
                loaded,
                scorer,
                group,
                number=options.continuations,
                max_tokens=options.max_tokens,
                generator=generator,
            )
            for name, variant in scorers.items():
                points_of[name] += points(loaded, variant, group, continuations, grader)
    if not points_of[DEFAULT]:
        raise ValueError(f"solution must be a usable answer, got {len(groups)} problems with none.")
    rows: Rows = [
        {"variant": name, "quantity": quantity}
        | summary([p for p in points_of[name] if p.quantity == quantity], options.continuations)
        for name in scorers
        for quantity in QUANTITIES
    ]
    settings = {
        "model": model,
        "responses": str(options.responses),
        "problems": len(groups),
        "continuations": options.continuations,
        "max_tokens": options.max_tokens,
        "seed": options.seed,
        "step": options.step_delimiter or f"{fields.step_size} tokens",
        "elicitations": texts,
        "grader": grader.label,
    }
    path = write(options.output_dir / "calibration.json", settings, rows)
    figure.draw(path, options.output_dir / "calibration.png")
    return rows


def main(argv: list[str] | None = None) -> None:
    """Run the analysis and show its table."""
    parser = OneLineParser(
        prog=PROG, description="Compares beliefs with the answers that the model goes on to give."
    )
    parser.add_argument(
        "responses",
        type=Path,
        metavar="DIR",
        help="responses of a model: a folder that `barl evaluate` wrote",
    )
    parser.add_argument("--model", help="checkpoint (default: the one that gave the responses)")
    parser.add_argument(
        "--benchmarks",
        type=lambda text: text.split(","),
        help="benchmarks, separated by commas (default: all)",
    )
    only = "take only the first N problems"
    parser.add_argument("--max_problems", type=at_least_one, metavar="N", help=only)
    samples = "samples from every state, at least 2"
    parser.add_argument(
        "--continuations", type=_at_least_two, default=16, metavar="N", help=samples
    )
    most = "most tokens of a response"
    parser.add_argument("--max_tokens", type=at_least_one, default=1024, metavar="N", help=most)
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples")
    size = BARLConfig.step_size
    parser.add_argument("--step_size", type=at_least_one, default=size, help="tokens of a step")
    delimiter = "text that ends a step; replaces step_size"
    parser.add_argument("--step_delimiter", metavar="TEXT", help=delimiter)
    add_grader_options(parser)
    folder = Path("outputs/calibration")
    parser.add_argument("--output_dir", type=Path, default=folder, help="folder of the results")
    options = parser.parse_args(argv)
    transformers.utils.logging.disable_progress_bar()  # this command has its own
    with ended_in_one_line(PROG):
        rows = calibration(options)
    print_table("Beliefs beside what the model goes on to answer", _lines(rows))
    print(printable(f"In {options.output_dir}: calibration.png, calibration.json (each bin)."))


def _at_least_two(text: str) -> int:
    """Parse a number of samples that have a variance."""
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 2, got {text!r}")
    return int(text)


def _lines(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault(row["variant"], {"variant": row["variant"]})
        name = "p" if row["quantity"] == "plausibility" else "w_0"
        error = f" ± {row['standard_error']:.3f}" if row["standard_error"] is not None else ""
        line[f"{name} error"] = f"{row['squared_error']:.3f}{error}"
        line[f"{name} gap"] = f"{row['gap']:.3f}"
    return [*lines.values()]


if __name__ == "__main__":
    main()
