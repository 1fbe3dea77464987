"""`python -m experiments.inquiry.draw`: curves of the trainings of 800 steps, from their lines."""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np

from ..paper.common import line_style, panels
from .arms import ARMS
from .parts import LONG_PARTS, PARTS, TUNING_SEED

GAMES = {part.game: part.title.split(",")[0] for part in (*LONG_PARTS, PARTS["guess-long"])}
"""Games of the figure, and the titles of their panels."""


def reported(lines: Path, condition: str = "long") -> dict[tuple[str, str], list[dict]]:
    """Return the reported trainings of each game and arm in the order of their seeds.

    Of a rival with two learning rates it is the one that was better with the first three seeds.
    """
    found = defaultdict(lambda: defaultdict(list))
    for run in map(json.loads, lines.read_text(encoding="utf-8").splitlines()):
        if run["condition"] == condition and run["seed"] < TUNING_SEED:
            label = Path(run["path"]).stem.split("-")[-2]
            found[run["game"], run["arm"]][label].append(run)

    def first(runs: list[dict]) -> float:
        return fmean(run["final"]["accuracy"] for run in runs[:3])

    ordered = {
        key: [sorted(runs, key=lambda run: run["seed"]) for runs in of.values()]
        for key, of in found.items()
    }
    return {key: max(of, key=first) for key, of in ordered.items()}


def draw(lines: Path, path: Path, arms: list[str]) -> None:
    """Draw the mean accuracy of each arm over training, with standard errors over seeds."""
    runs_of = reported(lines)
    games = [game for game in GAMES if any((game, arm) in runs_of for arm in arms)]
    with panels(path, len(games)) as (_, axes):
        for axis, game in zip(axes[0], games, strict=True):
            for n, arm in enumerate(arms):
                if runs := runs_of.get((game, arm)):
                    steps = [point["step"] for point in runs[0]["curve"]]
                    heights = 100 * np.array(
                        [[point["accuracy"] for point in run["curve"]] for run in runs]
                    )
                    errors = heights.std(axis=0, ddof=1) / len(runs) ** 0.5 if runs[1:] else None
                    label, style = ARMS[arm].title, line_style(n)
                    axis.errorbar(steps, heights.mean(axis=0), yerr=errors, label=label, **style)
            axis.set(title=GAMES[game], xlabel="optimizer step", ylabel="found (%)")
            axis.set_ylim(bottom=0)


def main() -> None:
    """Draw the figure of docs/evidence.md."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path, default=here / "runs-long.jsonl")
    parser.add_argument("--output", type=Path, default=here.parents[1] / "docs/images/long.png")
    parser.add_argument("--arms", nargs="+", default=["rloo", "grpo", "bayes-0.3", "bayes-1-step"])
    options = parser.parse_args()
    draw(options.lines, options.output, options.arms)


if __name__ == "__main__":
    main()
