"""The paper's figures of training: accuracy, response length and beliefs, from run folders."""

import argparse
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..tools import read_json, write_json
from .common import line_style, panels, plain

TRAINING, MEAN = "training rollouts", "mean over benchmarks"
_SEED = re.compile(r"[-_](seed|s)?[-_]?\d+$")
_EVALUATED = re.compile(r"eval_(?P<set>.+)/(?P<kind>accuracy|mean_tokens)")
_LABELS = {
    "accuracy": "accuracy (%)",
    "mean_tokens": "response length (tokens)",
    "posterior_entropy": "posterior entropy (nats)",
    "truth_mass": "posterior mass on the truth",
}
"""Kind of a curve -> label of its axis. The first two are the paper's."""
_OF_TRAINING = {
    "completions/mean_length": "mean_tokens",
    "barl/posterior_entropy": "posterior_entropy",
    "barl/truth_mass": "truth_mass",
}
"""Metric that training logs -> kind of its curve."""


def arms_of(runs: Sequence[str]) -> dict[str, list[Path]]:
    """Group `[ARM=]RUN_DIR` by arm: without one, by the folder's name up to the seed's number.

    >>> sorted(arms_of(["runs/barl-seed1", "runs/barl-seed2", "GRPO=runs/other"]))
    ['GRPO', 'barl']
    """
    grouped = defaultdict(list)
    for run in runs:
        arm, equals, folder = run.partition("=")
        if not equals or Path(run).exists():
            arm, folder = "", run
        name = Path(folder).name
        grouped[arm or _SEED.sub("", name) or name].append(Path(folder))
    return dict(grouped)


def summarize(runs: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """Average the curves of runs over seeds, at the steps that all seeds have.

    Args:
        runs: Arm -> the folders of its runs, one for each seed. A run may be unfinished.

    Returns:
        Arm -> the number of `seeds`, and `curves`. A curve, by set of problems and kind (a key of
        `_LABELS`), has `steps`, `mean` and `standard_error` (None for a single seed). The mean over
        benchmarks comes last.
    """
    summary = {}
    for arm, folders in runs.items():
        seeds = [_curves_of(folder) for folder in folders]
        curves: dict[str, Any] = {}
        for name, kind in sorted({place for run in seeds for place in run}, key=_order):
            of_place = [run[name, kind] for run in seeds if (name, kind) in run]
            steps = sorted(set.intersection(*map(set, of_place)))
            logged = np.array([[curve[step] for step in steps] for curve in of_place], dtype=float)
            number, errors = len(of_place), None
            if number > 1:
                errors = (logged.std(axis=0, ddof=1) / number**0.5).tolist()
            mean = logged.mean(axis=0).tolist()
            curve = {"steps": steps, "mean": mean, "standard_error": errors}
            curves.setdefault(name, {})[kind] = curve
        summary[arm] = {"seeds": len(folders), "curves": curves}
    return summary


def _order(place: tuple[str, str]) -> tuple[int, str, str]:
    name, kind = place
    return (name == MEAN) - (name == TRAINING), name, kind


def _curves_of(folder: Path) -> dict[tuple[str, str], dict[int, float]]:
    """Read the curves of a run: by set of problems and kind, the values by optimizer step."""
    paths = sorted(folder.glob("checkpoint-*/trainer_state.json"), key=lambda p: p.stat().st_mtime)
    paths += [path for path in [folder / "trainer_state.json"] if path.exists()]
    if not paths:
        raise FileNotFoundError(f"{folder} has no trainer_state.json: name a run's output_dir.")
    curves: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for log in read_json(paths[-1])["log_history"]:
        for name, value in log.items():
            place = _place(name, log)
            if place and value is not None:
                curves[place][log["step"]] = value
    return curves


def _place(name: str, log: Mapping[str, float]) -> tuple[str, str] | None:
    """Return set of problems and kind of the curve of a logged metric; None if it has no curve."""
    if match := _EVALUATED.fullmatch(name):
        return match["set"], match["kind"]
    if name == "eval_accuracy":
        return MEAN, "accuracy"
    if name in _OF_TRAINING:
        return TRAINING, _OF_TRAINING[name]
    rewards = [key for key in log if key.startswith("rewards/") and key.endswith("/mean")]
    accuracy = next((key for key in rewards if "accuracy" in key), (*rewards, None)[0])
    return (TRAINING, "accuracy") if name == accuracy else None


def draw(arms: Mapping[str, Any], path: Path) -> None:
    """Draw what was logged over the optimizer steps, a row for each set of problems."""
    curves = [arm["curves"] for arm in arms.values()]
    places = {(name, kind) for of_arm in curves for name in of_arm for kind in of_arm[name]}
    sets = list(dict.fromkeys(name for name, _ in sorted(places, key=_order)))
    kinds = [kind for kind in _LABELS if kind in {kind for _, kind in places}]
    title = "Mean over seeds; band: ± one standard error"
    with panels(path, len(kinds), len(sets), title) as (_, axes):
        for row, name in zip(axes, sets, strict=True):
            for axis, kind in zip(row, kinds, strict=True):
                for n, (arm, results) in enumerate(arms.items()):
                    if curve := results["curves"].get(name, {}).get(kind):
                        _draw_curve(axis, curve, n, f"{arm} ({results['seeds']} seeds)", kind)
                if not axis.lines:  # a mean over benchmarks has no length, only training beliefs
                    axis.axis("off")
                    continue
                axis.set(title=plain(name), xlabel="optimizer step", ylabel=_LABELS[kind])
                axis.tick_params(labelbottom=True)  # the panel below may be empty
                axis.set_ylim(bottom=0)


def _draw_curve(axis: Any, curve: Mapping[str, Any], n: int, label: str, kind: str) -> None:
    scale = 100 if kind == "accuracy" else 1
    steps, means = curve["steps"], scale * np.array(curve["mean"])
    style = {name: line_style(n)[name] for name in ("color", "linestyle", "marker", "markersize")}
    axis.plot(steps, means, **style, markevery=max(1, len(steps) // 8), label=plain(label))
    if curve["standard_error"] is not None:
        errors = scale * np.array(curve["standard_error"])
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
        axis.fill_between(steps, means - errors, means + errors, **band)


def main(argv: list[str] | None = None) -> None:
    """Write `curves.json` and `curves.png`, and print the folders of each arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    text = "output folders of `barl train`; those with the same ARM are its seeds"
    parser.add_argument("runs", nargs="+", metavar="[ARM=]RUN_DIR", help=text)
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/analysis"))
    options = parser.parse_args(argv)
    arms = arms_of(options.runs)
    summary = summarize(arms)
    write_json(options.output_dir / "curves.json", summary)
    draw(summary, options.output_dir / "curves.png")
    for arm, folders in arms.items():
        print(f"{arm}: {', '.join(map(str, folders))}")


if __name__ == "__main__":
    main()
