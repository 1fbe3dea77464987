"""The report: tables of what the arms reached, beside what could be reached."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from barl_trl.evaluation.comparison import holm

from ..tools import Difference, paired, read_json, table, with_error
from .arms import ARMS
from .environments import GAMES
from .games import BUDGETS, CONDITIONS
from .inquiry import number
from .parts import IN_CONDITIONS, PARTS, Part, label_of, path_of, tuned
from .references import (
    greedy_question,
    optimal_number_accuracy,
    random_question,
    reference_play,
)

REFERENCE_GAMES = 512
BASELINES = ("grpo", "rloo", "progress-model")
"""Arms that use no belief of the task; the best of them is the rival."""

REDRAWN = "-redrawn"
"""How the names of conditions end whose other side has one secret for each prompt."""

_COLUMNS = (
    ("questions", "questions", 1, 2),
    ("entropy at the answer", "belief_entropy", 1, 2),
    ("determined, %", "determined", 100, 0),
    ("log score, nats", "log_score", 1, 2),
    ("tokens", "tokens", 1, 0),
)
"""Heading, measure, unit and digits of columns with a mean over seeds."""

Records = dict[str, list[dict[str, Any]]]
"""Trainings of each arm, in the order of the seeds."""


def write(folder: Path) -> Path:
    """Write `report.md` of all trainings in a folder, and return its path."""
    blocks = ["# Does a belief of the task pay?"]
    for part in PARTS.values():
        for condition in part.conditions:
            records = _records(folder, part, condition)
            if "grpo" in records:
                blocks.extend(_section(folder, part, condition, records))
                fixed = _records(folder, part, condition.removesuffix(REDRAWN))
                if condition.endswith(REDRAWN):
                    blocks.extend(_without_redrawing(fixed, records["grpo"]))
    page = folder / "report.md"
    page.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return page


def _records(folder: Path, part: Part, condition: str) -> Records:
    records = {}
    for arm in part.arms:
        paths, seed, label = [], part.first_seed, label_of(folder, part, arm)
        while (path := path_of(folder, part.game, condition, arm, seed, label)).exists():
            paths.append(path)
            seed += 1
        if paths:
            records[arm] = [read_json(path) for path in paths]
    return records


def _section(folder: Path, part: Part, condition: str, records: Records) -> Iterator[str]:
    """Yield the blocks of one game under one condition."""
    yield f"## {part.title}: {CONDITIONS[condition].title}"
    yield "; ".join(_references(part.game, condition, BUDGETS[part.game].questions)) + "."
    rival = max((arm for arm in BASELINES if arm in records), key=lambda arm: _mean(records[arm]))
    differences = {
        arm: _ahead(records[arm], records[rival]) for arm in records if arm not in BASELINES
    }
    tested = [arm for arm, difference in differences.items() if difference.p == difference.p]
    corrected = dict(zip(tested, holm([differences[arm].p for arm in tested]), strict=True))
    columns = ["arm", "seeds", "accuracy, %", f"ahead of {ARMS[rival].title}, points", "p (Holm)"]
    columns += [label for label, *_ in _COLUMNS]
    columns += ["rollouts to 80 %", "stops", "CPU seconds", "learning rate, entropy bonus"]
    rows = []
    for arm, runs in records.items():
        setting = runs[0]["setting"]
        rows.append(
            [
                ARMS[arm].title,
                str(len(runs)),
                with_error([100 * run["final"]["accuracy"] for run in runs], 1),
                str(differences.get(arm, "")),
                f"{corrected[arm]:.3f}" if arm in corrected else "",
                *(
                    with_error([scale * run["final"][name] for run in runs], digits)
                    for _, name, scale, digits in _COLUMNS
                ),
                _rollouts_to(runs, 0.8),
                _stops(runs),
                with_error([run["cpu_seconds"] for run in runs], 0),
                f"{setting['learning_rate']:g}, {setting['entropy_coef']:g}",
            ]
        )
    yield table(columns, rows)
    if condition in ("many", "long"):
        yield "Tuning, accuracy in % (learning rate, entropy bonus):"
        names = [f"{setting.learning_rate:g}, {setting.entropy_coef:g}" for setting in part.grid]
        tuning = {arm: [f"{100 * a:.0f}" for a in tuned(folder, part, arm)[1]] for arm in records}
        yield table(["arm", *names], [[ARMS[arm].title, *cells] for arm, cells in tuning.items()])


def _without_redrawing(fixed: Records, redrawn: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield how far arms without redrawn secrets are ahead of GRPO with them."""
    for arm in IN_CONDITIONS:
        if arm in fixed:
            yield (
                f"{ARMS[arm].title} with one secret for each prompt is ahead of GRPO with one for "
                f"each rollout by {_ahead(fixed[arm], redrawn)} points."
            )


def _references(game: str, condition: str, questions: int) -> Iterator[str]:
    """Yield what can be reached with all questions, and with questions drawn at random."""
    rate = CONDITIONS[condition].error_rate
    inquiry = GAMES[game].inquiry
    if rate is not None:
        inquiry = number(len(inquiry.hypotheses), error_rate=rate)
    if game.startswith("number") and not inquiry.error_rate:
        best = optimal_number_accuracy(len(inquiry.hypotheses), questions)
        yield f"Bayes-optimal policy {100 * best:.1f} %"
    for name, policy in (("greedy information", greedy_question), ("random", random_question)):
        play = reference_play(inquiry, policy, questions, games=REFERENCE_GAMES)
        yield f"{name} {100 * play.accuracy:.1f} %"
    yield f"guessing at once {100 / len(inquiry.hypotheses):.1f} %"


def _mean(runs: Sequence[dict[str, Any]]) -> float:
    return sum(run["final"]["accuracy"] for run in runs) / len(runs)


def _ahead(runs: Sequence[dict[str, Any]], rivals: Sequence[dict[str, Any]]) -> Difference:
    """Return the difference in points of accuracy, of the same seeds."""
    accuracies = [[100 * run["final"]["accuracy"] for run in of] for of in (runs, rivals)]
    return paired(*accuracies)


def _rollouts_to(runs: Sequence[dict[str, Any]], accuracy: float) -> str:
    """Return the median number of rollouts after which an evaluation reached an accuracy."""
    firsts = []
    for run in runs:
        per_step = run["rollouts"] / run["final"]["step"]
        reached = [p["step"] * per_step for p in run["curve"] if p["accuracy"] >= accuracy]
        firsts.append(min(reached, default=float("inf")))
    median = sorted(firsts)[(len(firsts) - 1) // 2]
    return "never" if median == float("inf") else f"{median:,.0f}"


def _stops(runs: Sequence[dict[str, Any]]) -> str:
    """Return in how many seeds an arm stopped asking, or answering."""
    silent = sum(run["final"]["questions"] < 1 for run in runs)
    mute = sum(run["final"]["unanswered"] > 0.5 for run in runs)
    parts = [f"asking {silent}"] * bool(silent) + [f"answering {mute}"] * bool(mute)
    return ", ".join(parts) or "none"
