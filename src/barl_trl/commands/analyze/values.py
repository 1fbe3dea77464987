"""`barl analyze values`: what the steps of responses are worth under a checkpoint's belief."""

import argparse
import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ...evaluation.responses import Response
from ...graders import get_grader
from ...report.json_files import read_json
from ...trainer.config import BARLConfig, choices_of, own_fields
from ..shell.console import at_least_one, progress_bar, refuse_overwriting
from ..shell.parsers import printable
from .common import Rows, add_grader_options, add_model_options, named, read_models, show, write

SCORING_FIELDS = (
    "step_size",
    "elicitation",
    "max_answer_chars",
    "max_hypotheses",
    "consistency_beta",
    "answer_likelihood",
    "plausibility_temperature",
    "scoring_method",
    "scoring_max_tokens",
)
"""Fields of [`BARLConfig`] that `values` takes."""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the analysis's own options."""
    command.set_defaults(run=_run)
    add_model_options(command)
    command.add_argument(
        "responses",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="responses of each model: a folder that `barl evaluate` wrote",
    )
    text = "checkpoint whose beliefs are read (default: the model that gave the responses)"
    command.add_argument("--model", help=text)
    command.add_argument(
        "--step_delimiter",
        metavar="TEXT",
        help="text that ends a step; replaces step_size",
    )
    add_grader_options(command)
    only = "take only the first N problems of each benchmark"
    command.add_argument("--max_problems", type=at_least_one, metavar="N", help=only)
    for option in own_fields():
        if option.name in SCORING_FIELDS:
            choices = choices_of(option.type)
            kind = str if choices else int
            command.add_argument(
                f"--{option.name}",
                type=kind if option.default is None else type(option.default),
                default=option.default,
                choices=choices or None,
                help=option.metadata["help"].replace("%", "%%"),
            )


def _run(options: argparse.Namespace) -> None:
    """Compute the Bayesian value, and the posterior-weighted one, of every step of responses.

    Writes `<name>/<benchmark>.jsonl` with the beliefs and values of every response, the same and
    more as rollout records in `<name>/<benchmark>/beliefs`, their means in `values.json`, and
    `bayesian_values.png` and `posterior_weighted_values.png`.
    """
    output_dir, delimiter = options.output_dir, options.step_delimiter
    responses_of = read_models(options, options.responses)
    refuse_overwriting([output_dir / name for name in responses_of], options.responses)
    for folder in (output_dir / name for name in responses_of):
        if (folder / "results.json").exists():
            raise ValueError(
                f"output_dir must not have responses of barl evaluate in {folder.name}, got "
                f"{output_dir}: this command would replace them. Name another folder."
            )
    models = {
        name: options.model or model_of(folder)
        for name, folder in named(options.names, options.responses).items()
    }
    args = BARLConfig(
        bf16=False, **{name: getattr(options, name) for name in (*SCORING_FIELDS, "extraction")}
    )
    grader = get_grader(options.grader, options.extraction)
    # imported late: they take seconds
    import transformers

    from ...evaluation.beliefs.response_values import load, values_by_timestep
    from ...report.figures.analysis_figures import VALUE_TITLES, draw_values

    transformers.utils.logging.disable_progress_bar()  # this command has its own
    rows, unusable = [], 0
    with progress_bar() as progress:
        for name, by_benchmark in responses_of.items():
            model, scorer = load(models[name], args, grader=grader, step_delimiter=delimiter)
            for benchmark, problems in by_benchmark.items():
                groups = list(problems.values())[: options.max_problems]
                tracked = progress.track(groups, description=f"{name}, {benchmark}")
                folder = output_dir / name
                by_problem = _write(folder, benchmark, tracked, models[name], model, scorer)
                unusable += by_problem.count([])
                means = values_by_timestep(chain.from_iterable(by_problem))
                rows += [{"benchmark": benchmark, "model": name, **row} for row in means]
    if not rows:
        raise ValueError(f"solution must be a usable answer, got {unusable} problems with none.")
    settings = {
        **{name: args.settings[name] for name in SCORING_FIELDS},
        "step": f"up to {delimiter!r}" if delimiter else f"{args.step_size} tokens",
        "models": models,
        "grader": grader.label,
        "problems_without_usable_truth": unusable,
    }
    path = write(output_dir / "values.json", settings, rows)
    for value in VALUE_TITLES:
        draw_values(path, output_dir / f"{value}.png", value=value)
    show("Mean over the steps of a response", rows, "responses", _cells)
    files = (
        "bayesian_values.png, posterior_weighted_values.png, values.json (each timestep), and for "
        "each model and benchmark a JSONL and rollout records with every response"
    )
    print(printable(f"In {output_dir}: {files}."))


def _write(
    folder: Path,
    benchmark: str,
    groups: Iterable[Sequence[Response]],
    checkpoint: str,
    model: Any,
    scorer: Any,
) -> list[Rows]:
    """Write the beliefs and values of responses to a benchmark; return the values by problem."""
    from ...evaluation.beliefs.response_records import belief_table, record_path, response_metadata
    from ...evaluation.beliefs.response_values import believe, value_records
    from ...report.rollout_records import write_records
    from ...report.token_texts import TokenTexts

    tokenizer, texts = scorer.tokenizer, TokenTexts(scorer.tokenizer)
    by_problem, tables, first = [], [], 0
    for responses in groups:
        believed = believe(model, scorer, responses)
        tables.append(belief_table(texts, believed, first=first, tokenizer=tokenizer))
        by_problem.append([*value_records(believed, scorer)])
        first += len(responses)
    metadata = response_metadata(checkpoint, benchmark, settings=scorer.args.settings)
    write_records(record_path(folder, benchmark), tables, metadata)
    lines = (json.dumps(record) + "\n" for record in chain.from_iterable(by_problem))
    (folder / f"{benchmark}.jsonl").write_text("".join(lines), encoding="utf-8")
    return by_problem


def model_of(folder: Path) -> str:
    """Return the model that gave the responses in a folder.

    Raises:
        ValueError: The folder has no `results.json`.
    """
    path = folder / "results.json"
    if not path.exists():
        raise ValueError(f"--model must be given without {path}, which names the model.")
    return read_json(path, model=str)["model"]


def _cells(rows: Rows) -> dict[str, str]:
    from ...report.figures.analysis_figures import VALUE_TITLES

    cells = {"responses": f"{rows[0]['num_responses']:,} {rows[0]['responses']}"}
    for row in rows:
        if row["timestep"] is None:
            error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.3f}"
            cells[VALUE_TITLES[row["value"]]] = f"{row['mean']:.3f}{error}"
    return cells
