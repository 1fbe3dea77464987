"""Curves over training, by arm, from run folders: accuracy, response length and beliefs."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from ..json_files import read_json
from .styles import finish, line_style, panels, plain, styled

TRAINING = "training rollouts"
MEAN = "mean over benchmarks"
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

_Curve = dict[int, float]


def summarize(runs: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """Average the curves of runs over seeds, at the steps that all seeds have.

    Args:
        runs: Arm -> the folders of its runs, one for each seed. A run may be unfinished: without
            a `trainer_state.json`, the one of its last checkpoint is read.

    Returns:
        Arm -> the number of `seeds`, and `curves`. A curve, by set of problems and kind (a key of
        `_LABELS`), has `steps`, `mean` and `standard_error` (None for a single seed). The mean over
        benchmarks comes last. The accuracy on training rollouts is the mean of the first reward
        whose name has "accuracy", or else of the first.

    Raises:
        FileNotFoundError: A folder has no `trainer_state.json`, nor has a checkpoint in it.
        ValueError: A run logged neither rewards nor evaluations.
    """
    summary = {}
    for arm, folders in runs.items():
        seeds = [_curves_of(folder) for folder in folders]
        curves: dict[str, Any] = {}
        for name, kind in sorted({place for run in seeds for place in run}, key=_order):
            of_place = [run[name, kind] for run in seeds if (name, kind) in run]
            steps = sorted(set.intersection(*map(set, of_place)))
            if not steps:
                raise ValueError(
                    f"The runs of {arm} must log {kind} of {name} at common steps, got none: "
                    "summarize runs with equal logging_steps and eval_steps."
                )
            logged = np.array([[curve[step] for step in steps] for curve in of_place], dtype=float)
            errors = None
            if len(of_place) > 1:
                errors = (logged.std(axis=0, ddof=1) / len(of_place) ** 0.5).tolist()
            curves.setdefault(name, {})[kind] = {
                "steps": steps,
                "mean": logged.mean(axis=0).tolist(),
                "standard_error": errors,
            }
        summary[arm] = {"seeds": len(folders), "curves": curves}
    return summary


def _curves_of(folder: Path) -> dict[tuple[str, str], _Curve]:
    """Read the curves of a run: by set of problems and kind, the values by optimizer step."""
    curves: dict[tuple[str, str], _Curve] = defaultdict(dict)
    for log in _log_history(folder):
        for name, value in log.items():
            place = _place(name, log)
            if place and value is not None:
                curves[place][log["step"]] = value
    if not curves:
        raise ValueError(
            f"{folder} must have rewards or evaluations logged, got none: train with "
            "--logging_steps or --eval_benchmarks."
        )
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


def _log_history(folder: Path) -> list[dict[str, Any]]:
    """Return the logs of a run from its `trainer_state.json`, or from its last checkpoint's."""
    checkpoints = folder.glob("checkpoint-*/trainer_state.json")
    places = {path.parent.name.removeprefix("checkpoint-"): path for path in checkpoints}
    by_step = [places[step] for step in sorted(filter(str.isdecimal, places), key=int)]
    for path in (folder / "trainer_state.json", *reversed(by_step)):
        with suppress(FileNotFoundError, ValueError):  # a killed run may leave a part of the file
            return read_json(path, log_history=list)["log_history"]
    raise FileNotFoundError(
        f"{folder} must have a trainer_state.json, or checkpoints that have one, got neither: name "
        "the output_dir of a run."
    )


def _order(place: tuple[str, str]) -> tuple[int, str, str]:
    name, kind = place
    return (name == MEAN) - (name == TRAINING), name, kind


@styled
def draw(summary: str | Path, path: str | Path) -> None:
    """Draw what was logged over the optimizer steps, a row for each set of problems.

    Args:
        summary: JSON file of what [`summarize`] returned.
        path: PNG to write.
    """
    arms = read_json(summary)
    curves = [arm["curves"] for arm in arms.values()]
    places = {(name, kind) for of_arm in curves for name in of_arm for kind in of_arm[name]}
    names = list(dict.fromkeys(name for name, _ in sorted(places, key=_order)))
    kinds = [kind for kind in _LABELS if kind in {kind for _, kind in places}]
    figure, axes = panels(len(kinds), rows=len(names))
    for row, name in zip(axes, names, strict=True):
        for axis, kind in zip(row, kinds, strict=True):
            for n, (arm, results) in enumerate(arms.items()):
                seeds = "1 seed" if results["seeds"] == 1 else f"{results['seeds']} seeds"
                if curve := results["curves"].get(name, {}).get(kind):
                    _draw_curve(axis, curve, n, plain(f"{arm} ({seeds})"), kind)
            if not axis.lines:  # a mean over benchmarks has no length, and only training beliefs
                axis.axis("off")
                continue
            axis.set(title=plain(name), xlabel="optimizer step", ylabel=_LABELS[kind])
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.tick_params(labelbottom=True)  # the panel below may be empty
            axis.set_ylim(bottom=0)
    has_bands = any(results["seeds"] > 1 for results in arms.values())
    finish(figure, path, "Mean over seeds; band: ± one standard error" if has_bands else None)


def _draw_curve(axis, curve, n, label, kind):
    scale = 100 if kind == "accuracy" else 1
    steps, means = curve["steps"], scale * np.array(curve["mean"])
    style = {name: line_style(n)[name] for name in ("color", "linestyle", "marker", "markersize")}
    axis.plot(steps, means, **style, markevery=max(1, len(steps) // 8), label=label)
    if curve["standard_error"] is not None:
        errors = scale * np.array(curve["standard_error"])
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
        axis.fill_between(steps, means - errors, means + errors, **band)
