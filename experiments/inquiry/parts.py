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
LONG = (
    *("rloo", "grpo", "bayes-0.3", "bayes-0-step", "bayes-0.3-step", "bayes-1-step"),
    *("bayes-1-falls", "bayes-1-belief", "ahead-own", "ahead-value", "belief_critic"),
    "bayes-1-step-taught",
)
"""Arms of the trainings of 800 steps."""
RIVALS = ("rloo", "grpo")
"""Arms without the task's belief in the trainings of 800 steps."""
WEIGHTS = ("bayes-0-step", "bayes-0.3-step", "bayes-1-step")
"""Arms of which one becomes the new default, from the lowest information weight on."""
PUBLIC = ("rloo", "grpo", "bayes-0.3", *WEIGHTS)
"""Arms of the public game; of the weights only the chosen one is trained."""
VETOING = ("price", "noise")
"""Conditions in which the weight must not be 5 points behind none."""
TURNS = ("grpo", "rloo", "turns-step", "turns-state", "rloo-turnless")
"""Arms of the games that reward turns."""
LONG_TUNING_SEEDS, FIRST_LONG_SEED = (101, 102, 103), 31


_LATER = {*LONG, *TURNS} - {*DECIDING, "belief_critic"}
_EARLIER = tuple(name for name in ARMS if name not in _LATER)


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
    return Part(f"{title}, long", game, ("long",), LONG, grid, seeds, FIRST_LONG_SEED)


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
    "guess-long": _long("TextArena's GuessTheNumber", "guess-belief")._replace(arms=PUBLIC),
}
"""The parts by name. Each needs the tuning of its game."""
LONG_PARTS = tuple(part for part in PARTS.values() if part.arms == LONG)


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


def chosen_weight(folder: Path) -> str:
    """Return the arm whose information weight tuning chose for all games of 800 steps.

    It has the highest mean over the games of the accuracy at its best setting; within one point
    the lower weight is taken.

    Raises:
        StatisticsError: Tuning lacks trainings.
    """

    def mean(arm: str) -> float:
        return fmean(max(tuned(folder, part, arm)[1]) for part in LONG_PARTS)

    means = {arm: mean(arm) for arm in WEIGHTS}
    return next(arm for arm in WEIGHTS if means[arm] >= max(means.values()) - 0.01)


def veto_jobs(folder: Path, arms: Sequence[str], scale: Scale) -> list[FileJob]:
    """Return the trainings that may veto a weight, all at the first arm's setting on numbers.

    Args:
        folder: Folder of the trainings.
        arms: The arm with the weight, then that without.
        scale: How much is run.
    """
    part = PARTS["number-long"]
    setting, _ = tuned(folder, part, arms[0])
    label = f"veto-{part.grid.index(setting)}"
    return [
        FileJob(
            path_of(folder, part.game, condition, arm, seed, label),
            run_into,
            (part.game, condition, arm, seed, setting, scale),
        )
        for seed in part.tuning_seeds
        for condition in VETOING
        for arm in arms
    ]


def veto(folder: Path, arms: Sequence[str]) -> dict[str, float]:
    """Return by how many points the first arm is ahead of the second one in each condition.

    A point is one of accuracy, less the price of the questions.
    """
    points: dict[tuple[str, str], list[float]] = {}
    for job in veto_jobs(folder, arms, Scale()):
        record = read_json(job.path)
        price = CONDITIONS[record["condition"]].price * record["final"]["questions"]
        of = points.setdefault((record["condition"], record["arm"]), [])
        of.append(100 * (record["final"]["accuracy"] - price))
    return {
        condition: fmean(points[condition, arms[0]]) - fmean(points[condition, arms[1]])
        for condition in VETOING
    }


def recheck_jobs(folder: Path, part: Part, scale: Scale) -> list[FileJob]:
    """Return the trainings of a game's best rival at the setting that tuning did not take.

    The rival is the best on the first three reported seeds; without their files there is none.
    """
    (condition,) = part.conditions
    reached = {arm: _first_accuracy(folder, part, arm, "tuned") for arm in RIVALS}
    if None in reached.values():
        return []
    rival = max(RIVALS, key=lambda arm: reached[arm] or 0.0)
    setting = _other(part, tuned(folder, part, rival)[0])
    return [
        FileJob(
            path_of(folder, part.game, condition, rival, seed, "other"),
            run_into,
            (part.game, condition, rival, seed, setting, scale),
        )
        for seed in _first_seeds(part)
    ]


def label_of(folder: Path, part: Part, arm: str) -> str:
    """Return `"other"` if an arm was better at its other setting, else `"tuned"`."""
    reached = [_first_accuracy(folder, part, arm, label) for label in ("tuned", "other")]
    is_better = None not in reached and (reached[1] or 0.0) > (reached[0] or 0.0)
    return "other" if is_better else "tuned"


def _first_seeds(part: Part) -> range:
    return range(part.first_seed, part.first_seed + 3)


def _other(part: Part, setting: Setting) -> Setting:
    return next(one for one in part.grid if one != setting)


def _first_accuracy(folder: Path, part: Part, arm: str, label: str) -> float | None:
    """Return the mean accuracy over the first three reported seeds; None if one has no file."""
    paths = [
        path_of(folder, part.game, part.conditions[0], arm, seed, label)
        for seed in _first_seeds(part)
    ]
    if not all(path.exists() for path in paths):
        return None
    return fmean(read_json(path)["final"]["accuracy"] for path in paths)


def reported_jobs(
    folder: Path, part: Part, arms: Sequence[str], seeds: int, scale: Scale
) -> Iterator[FileJob]:
    """Yield the trainings that are reported, seed by seed."""
    settings = {arm: tuned(folder, part, arm)[0] for arm in arms}
    labels = {arm: label_of(folder, part, arm) for arm in arms}
    for arm in arms:
        if labels[arm] == "other":
            settings[arm] = _other(part, settings[arm])
    for seed in range(part.first_seed, part.first_seed + seeds):
        for condition in part.conditions:
            for arm in arms:
                if CONDITIONS[condition].redraws and ARMS[arm].needs_truth:
                    continue  # the row's solution is not the truth
                yield FileJob(
                    path_of(folder, part.game, condition, arm, seed, labels[arm]),
                    run_into,
                    (part.game, condition, arm, seed, settings[arm], scale),
                )
