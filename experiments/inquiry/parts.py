"""The parts of the experiment: which trainings each has, and the settings of each arm."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
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
LONG = ("rloo", "grpo", "bayes-0.3", "bayes-0-step", "bayes-0.3-step", "bayes-1-step")
"""Arms of the trainings of 800 steps."""
TURNS = ("grpo", "rloo", "turns-step", "turns-state", "rloo-turnless")
"""Arms of the games that reward turns."""
LONG_TUNING_SEEDS, FIRST_LONG_SEED = (101, 102, 103), 31


_EARLIER = tuple(name for name in ARMS if not name.endswith(("-step", "-state", "-turnless")))


class Part(NamedTuple):
    """A table: one arm in a row, one condition of one game in a column."""

    title: str
    game: str
    conditions: tuple[str, ...]
    arms: tuple[str, ...]
    grid: tuple[Setting, ...] = SHORT_GRID
    tuning_seeds: tuple[int, ...] = (TUNING_SEED,)
    first_seed: int = 1
    """The first seed that is reported; seed 0 is the demo's, and was looked at before."""


def _long(title: str, game: str) -> Part:
    grid, seeds = SHORT_GRID, LONG_TUNING_SEEDS
    return Part(f"{title}, 800 steps", game, ("long",), LONG, grid, seeds, FIRST_LONG_SEED)


def _turns(title: str, game: str) -> Part:
    grid, seeds = SHORT_GRID, LONG_TUNING_SEEDS
    return Part(f"{title}, rewards of turns", game, ("many",), TURNS, grid, seeds, FIRST_LONG_SEED)


PARTS = {
    "number": Part("Number", "number", ("many",), _EARLIER, GRID),
    "code": Part("Code", "code", ("many",), DECIDING),
    "words": Part("Words", "words", ("many",), DECIDING),
    "animals": Part("Animals", "animals", ("many",), DECIDING),
    "conditions": Part(
        "Conditions",
        "number",
        tuple(name for name in CONDITIONS if name not in ("many", "many-redrawn", "long")),
        IN_CONDITIONS,
        GRID,
    ),
    "redrawn": Part(
        "Redrawn secrets",
        "number",
        ("many-redrawn",),
        tuple(name for name in _EARLIER if not ARMS[name].needs_truth),
        GRID,
    ),
    "number-long": _long("Numbers", "number"),
    "number64-long": _long("64 numbers", "number64"),
    "animals-long": _long("Animals", "animals"),
    "number-turns": _turns("Numbers", "number-turns"),
    "guess-turns": _turns("TextArena's GuessTheNumber", "guess"),
}
"""The parts by name. Each needs the tuning of its game."""


def path_of(folder: Path, game: str, condition: str, arm: str, seed: int, label: str) -> Path:
    """Return the file of a training."""
    return folder / game / condition / f"{arm}-{label}-{seed}.json"


def tuning_jobs(folder: Path, part: Part, arms: Sequence[str], scale: Scale) -> list[FileJob]:
    """Return the trainings that try every setting of a part's arms, on seeds of their own."""
    return [
        FileJob(
            path_of(folder, part.game, "tuning", arm, seed, str(n)),
            run_into,
            (part.game, "many", arm, seed, setting, scale),
        )
        for seed in part.tuning_seeds
        for n, setting in enumerate(part.grid)
        for arm in arms
    ]


def tuned(folder: Path, part: Part, arm: str) -> tuple[Setting, list[float]]:
    """Return the setting with which an arm was best in tuning, and the accuracy of each setting.

    The accuracy is the mean over the seeds of tuning; `--quick` has one.
    """

    def accuracy(n: int) -> float:
        seeds = part.tuning_seeds
        paths = [path_of(folder, part.game, "tuning", arm, seed, str(n)) for seed in seeds]
        return fmean(read_json(path)["final"]["accuracy"] for path in paths if path.exists())

    accuracies = [accuracy(n) for n in range(len(part.grid))]
    return part.grid[max(range(len(part.grid)), key=accuracies.__getitem__)], accuracies


def reported_jobs(
    folder: Path, part: Part, arms: Sequence[str], seeds: int, scale: Scale
) -> Iterator[FileJob]:
    """Yield the trainings that are reported, seed by seed."""
    settings = {arm: tuned(folder, part, arm)[0] for arm in arms}
    for seed in range(part.first_seed, part.first_seed + seeds):
        for condition in part.conditions:
            for arm in arms:
                if CONDITIONS[condition].redraws and ARMS[arm].needs_truth:
                    continue  # the row's solution is not the truth
                yield FileJob(
                    path_of(folder, part.game, condition, arm, seed, "tuned"),
                    run_into,
                    (part.game, condition, arm, seed, settings[arm], scale),
                )
