"""The parts of the experiment: which trainings each has, and the settings of each arm."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..tools import FileJob, read_json
from .arms import ARMS
from .games import CONDITIONS
from .training import Scale, Setting, run_into

GRID = (Setting(5e-4, 0.0), Setting(1e-3, 0.0), Setting(2e-3, 0.0), Setting(1e-3, 0.002))
"""The settings that are tried for each arm of the game of numbers."""
SHORT_GRID = GRID[:2]
"""The settings that are tried for each arm of the other games."""
TUNING_SEED = 100
DECIDING = ("grpo", "rloo", "progress-model", "bayes-0", "bayes-0.3")
"""Arms of the three other games."""
IN_CONDITIONS = ("grpo", "bayes-0.3")
"""Arms of the conditions."""


class Part(NamedTuple):
    """A table: one arm in a row, one condition of one game in a column."""

    title: str
    game: str
    conditions: tuple[str, ...]
    arms: tuple[str, ...]
    grid: tuple[Setting, ...] = SHORT_GRID


PARTS = {
    "number": Part("Number", "number", ("many",), tuple(ARMS), GRID),
    "code": Part("Code", "code", ("many",), DECIDING),
    "words": Part("Words", "words", ("many",), DECIDING),
    "animals": Part("Animals", "animals", ("many",), DECIDING),
    "conditions": Part(
        "Conditions",
        "number",
        tuple(name for name in CONDITIONS if name not in ("many", "many-redrawn")),
        IN_CONDITIONS,
        GRID,
    ),
    "redrawn": Part(
        "Redrawn secrets",
        "number",
        ("many-redrawn",),
        tuple(name for name, arm in ARMS.items() if not arm.needs_truth),
        GRID,
    ),
}
"""The parts by name. Each needs the tuning of its game."""


def path_of(folder: Path, game: str, condition: str, arm: str, seed: int, label: str) -> Path:
    """Return the file of a training."""
    return folder / game / condition / f"{arm}-{label}-{seed}.json"


def tuning_jobs(folder: Path, part: Part, arms: Sequence[str], scale: Scale) -> list[FileJob]:
    """Return the trainings that try every setting of a part's arms, on a seed of their own."""
    return [
        FileJob(
            path_of(folder, part.game, "tuning", arm, TUNING_SEED, str(n)),
            run_into,
            (part.game, "many", arm, TUNING_SEED, setting, scale),
        )
        for n, setting in enumerate(part.grid)
        for arm in arms
    ]


def tuned(folder: Path, part: Part, arm: str) -> tuple[Setting, list[float]]:
    """Return the setting with which an arm was best in tuning, and the accuracy of each setting."""
    paths = [
        path_of(folder, part.game, "tuning", arm, TUNING_SEED, str(n))
        for n in range(len(part.grid))
    ]
    accuracies = [read_json(path)["final"]["accuracy"] for path in paths]
    return part.grid[max(range(len(part.grid)), key=accuracies.__getitem__)], accuracies


def reported_jobs(
    folder: Path, part: Part, arms: Sequence[str], seeds: int, scale: Scale
) -> Iterator[FileJob]:
    """Yield the trainings that are reported, seed by seed."""
    settings = {arm: tuned(folder, part, arm)[0] for arm in arms}
    for seed in range(1, seeds + 1):  # seed 0 is the demo's, and was looked at before
        for condition in part.conditions:
            for arm in arms:
                if CONDITIONS[condition].redraws and ARMS[arm].needs_truth:
                    continue  # the row's solution is not the truth
                yield FileJob(
                    path_of(folder, part.game, condition, arm, seed, "tuned"),
                    run_into,
                    (part.game, condition, arm, seed, settings[arm], scale),
                )
