"""The parts of the evidence: the jobs of each, and what its section of the report says."""

from collections.abc import Callable, Sequence
from itertools import chain
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from barl_trl.commands.shell.jobs import FileJob
from barl_trl.evaluation.statistics.metrics import interval, mean_and_standard_error
from barl_trl.report.json_files import read_json
from barl_trl.synthetic.search import TINY_MODEL_DIR

from .arms import ARMS, file_name
from .explorer import runs as explorer_runs
from .search import checkpoints
from .search import runs as search_runs

Section = dict[str, Any]
"""`title`, `text`, `tables` (each of `caption`, `columns` and `rows` of texts)."""


class Part(NamedTuple):
    """A part of the evidence.

    Attributes:
        title: Title of its section.
        seeds: Seeds of each arm by default.
        jobs: Maps the part's folder and the number of seeds to its jobs, in stages. Jobs of a stage
            need the files of the stages before.
        section: Maps the part's folder and the number of seeds to its section of the report.
    """

    title: str
    seeds: int
    jobs: Callable[[Path, int], list[list[FileJob]]]
    section: Callable[[Path, int], Section]


# A: gradients

_CONDITIONS_JUDGED = ("standard", "cut_off")
_JUDGED = {
    "bias": "bias",
    "quality": "quality",
    "gain": "gain over GRPO",
    "beyond_control": "beyond control",
    "answered": "answers (points)",
    "tokens": "tokens",
    "entropy": "entropy (nats)",
    "correlation": "correlation",
}
"""Columns of the table, by the verdict's field that each one shows."""


def _judge_jobs(folder: Path, seeds: int) -> list[list[FileJob]]:
    trained = [
        FileJob(folder / f"{file_name(arm)}.json", checkpoints.run_into, (arm,))
        for arm in checkpoints.TRAINED
    ]
    first = [
        FileJob(
            _verdict_file(folder, f"shipped, {condition}"),
            checkpoints.judge_into,
            (str(TINY_MODEL_DIR), condition, tuple(ARMS)),
        )
        for condition in _CONDITIONS_JUDGED
    ]
    late = [
        FileJob(
            _verdict_file(folder, f"{arm} after {step}"),
            checkpoints.judge_into,
            (str(folder / file_name(arm) / f"step-{step}"), "standard", checkpoints.LATE_ARMS),
        )
        for arm, step in _late()
    ]
    return [trained + first, late]


def _late() -> list[tuple[str, int]]:
    return [(arm, step) for arm in checkpoints.TRAINED for step in (20, 40)]


def _verdict_file(folder: Path, name: str) -> Path:
    return folder / f"gradients-{file_name(name)}.json"


def _judge_section(folder: Path, seeds: int) -> Section:
    names = [f"shipped, {condition}" for condition in _CONDITIONS_JUDGED]
    names += [f"{arm} after {step}" for arm, step in _late()]
    tables = []
    for name in names:
        rows = read_json(_verdict_file(folder, name))
        tables.append(
            {
                "caption": f"At: {name}",
                "columns": ["credit", *_JUDGED.values()],
                "rows": [[row["arm"], *(_judged(row, field) for field in _JUDGED)] for row in rows],
            }
        )
    text = (
        f"There are {checkpoints.JUDGEMENT.batches} batches of 64 rollouts. Bias is the cosine of "
        "the mean gradient of all parameters with the true one, and quality is the cosine of one "
        "batch's gradient with it. Both are corrected for noise. Errors are the jackknife's, and "
        "differences are paired. Beyond control is quality minus that of plain RL with each step's "
        "weight scaled to the credit's size. Answers, tokens and entropy say what a step along the "
        "mean gradient changes, as long as plain RL needs for a point of accuracy. Correlation is "
        "between weights and Monte-Carlo advantages. Noise: noise hides the mean gradient's length."
    )
    return {"title": "A. Gradients on the demo's model", "text": text, "tables": tables}


def _judged(row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if value is None or field == "correlation":
        return "" if value is None else f"{value:.2f}"
    points = 100 if field == "answered" else 1
    sign = "" if field in ("bias", "quality") else "+"
    return _with_error([points * number for number in value], sign=sign)


# B: the explorer


def _explorer_jobs(folder: Path, seeds: int) -> list[list[FileJob]]:
    places = [(c, arm) for c in explorer_runs.WORLDS for arm in explorer_runs.COMPARED_ARMS]
    return [
        [
            FileJob(
                explorer_runs.path_of(folder, condition, arm),
                explorer_runs.run_into,
                (condition, arm, seeds),
            )
            for condition, arm in places
        ]
    ]


def _explorer_section(folder: Path, seeds: int) -> Section:
    tables = []
    for condition in explorer_runs.WORLDS:
        paths = [
            explorer_runs.path_of(folder, condition, arm) for arm in explorer_runs.COMPARED_ARMS
        ]
        records = [read_json(path) for path in paths]
        number = min(len(record["runs"]) for record in records)
        if number < seeds:
            raise ValueError(
                f"output_dir must hold runs of {seeds} seeds, got {number} in "
                f"{folder / condition}: name another folder, or delete this one."
            )
        of_arms = {
            record["arm"]: {
                name: [run[name] for run in record["runs"][:seeds]]
                for name in ("mean_accuracy", "accuracy", "longer_accuracy")
            }
            for record in records
        }
        tables.append(
            {
                "caption": condition,
                "columns": [
                    "credit",
                    "bias",
                    "quality",
                    "accuracy over training",
                    "at the end",
                    "at the end, long budget",
                    "difference to GRPO, long budget",
                ],
                "rows": [
                    [
                        record["arm"],
                        f"{record['bias']:.2f}",
                        _with_error(record["quality"]),
                        *(_mean(of_arms[record["arm"]][name]) for name in of_arms["grpo"]),
                        _difference(of_arms, record["arm"], "longer_accuracy"),
                    ]
                    for record in records
                ],
            }
        )
    text = (
        "The explorer makes the demo's decisions with six parameters, without language. Each of "
        f"{seeds} seeds has 80 updates of 128 rollouts, and 2,000 fresh evaluation problems. "
        'Accuracies are in % ± standard error. In "confident", the policy prefers one guess by '
        '3 nats, which is mostly wrong. In "cut_off", it has 5 tries in training, and 30 in the '
        "test with a long budget."
    )
    return {"title": "B. An explorer with six parameters", "text": text, "tables": tables}


# C, D, E: trainings of the demo's model


def _search_part(title: str, condition: str, arms: Sequence[str], seeds: int, text: str) -> Part:
    def jobs(folder: Path, number: int) -> list[list[FileJob]]:
        return [
            [
                FileJob(
                    search_runs.path_of(folder, condition, arm, seed),
                    search_runs.run_into,
                    (condition, arm, seed),
                )
                for seed in range(number)
                for arm in arms
            ]
        ]

    def section(folder: Path, number: int) -> Section:
        of_arms = _last_evaluations(folder, condition, arms, number)
        tests = search_runs.CONDITIONS[condition].tests
        columns = [
            f"{candidates} candidates, {tokens} tokens" for candidates, tokens in tests.values()
        ]
        rows = [
            [
                arm,
                *chain.from_iterable(
                    (_mean(of_arms[arm][name]), _difference(of_arms, arm, name)) for name in tests
                ),
                f"{fmean(of_arms[arm]['accuracy/tokens']):.0f}",
            ]
            for arm in arms
        ]
        headings = ["credit", *chain.from_iterable((c, "difference to GRPO") for c in columns)]
        table = {
            "caption": f"Sampled accuracy after {search_runs.CONDITIONS[condition].steps} steps",
            "columns": [*headings, "tokens"],
            "rows": rows,
        }
        return {"title": title, "text": text.format(seeds=number), "tables": [table]}

    return Part(title, seeds, jobs, section)


def _last_evaluations(
    folder: Path, condition: str, arms: Sequence[str], seeds: int
) -> dict[str, dict[str, list[float]]]:
    """Return what the last evaluation of each seed measured, by arm and name of the measure."""
    of_arms = {}
    for arm in arms:
        paths = [search_runs.path_of(folder, condition, arm, seed) for seed in range(seeds)]
        last = [record["evaluations"][-1] for record in map(read_json, paths)]
        of_arms[arm] = {name: [measures[name] for measures in last] for name in last[0]}
    return of_arms


_TRAINED = (
    "The demo's model of 0.9 M parameters is trained for 40 steps of 64 rollouts with {seeds} "
    "seeds. Each seed has its own 400 held-out problems, the same for all credits. Accuracies are "
    "in % ± standard error. Differences are in points, paired by seed, with intervals of 95 %. "
)

PARTS = {
    "A": Part("A. Gradients on the demo's model", 1, _judge_jobs, _judge_section),
    "B": Part(
        "B. An explorer with six parameters",
        explorer_runs.SEEDS,
        _explorer_jobs,
        _explorer_section,
    ),
    "C": _search_part(
        "C. Cut off in training",
        "cut_off",
        ("grpo", "progress", "barl", "belief_critic", "belief_critic, no bootstrap"),
        8,
        _TRAINED + "Completions have at most 64 tokens in training, and 200 in the test.",
    ),
    "D": _search_part(
        "D. Few problems, many epochs",
        "memorisation",
        ("grpo", "barl", "belief_critic"),
        8,
        _TRAINED + "It is trained on the same 32 problems for 10 epochs, and tested on unseen "
        "equations, also with more candidates. It tests the paper's claim that BARL generalises.",
    ),
    "E": _search_part(
        "E. The demo's task",
        "standard",
        ("grpo", "barl", "belief_critic"),
        20,
        _TRAINED + "Problems are always new, and completions have at most 128 tokens.",
    ),
}
"""The parts of the evidence by letter."""


def _mean(accuracies: Sequence[float]) -> str:
    mean, error = mean_and_standard_error(accuracies)
    return f"{100 * mean:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


def _difference(of_arms: dict[str, dict[str, list[float]]], arm: str, name: str) -> str:
    if arm == "grpo" or len(of_arms[arm][name]) < 2:
        return ""
    pairs = zip(of_arms[arm][name], of_arms["grpo"][name], strict=True)  # of the same seeds
    gain, error = mean_and_standard_error([first - second for first, second in pairs])
    low, high = interval(gain, error or 0.0, len(of_arms[arm][name]))
    return f"{100 * gain:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _with_error(value: Sequence[float], *, sign: str = "") -> str:
    number, error = value
    is_noise = isnan(number) or isnan(error)
    return "noise" if is_noise else f"{number:{sign}.2f} ± {error:.2f}"
