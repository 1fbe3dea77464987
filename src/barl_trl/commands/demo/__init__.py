"""`barl demo`: a tiny model learns to explore, on a CPU in minutes.

The shipped model knows the arithmetic of the search task and explores badly. It is trained on fresh
problems with BARL (or a baseline), and evaluated on held-out ones before and after.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...evaluation.statistics.metrics import interval
from ...synthetic.search import STEP_DELIMITER
from ...trainer.barl_fields import BARLFields, check_method, option
from ...trainer.checkpoints.output_folder import refuse_used
from ...trainer.checks.preparation import refuse_early
from ..recipes import FOLDERS
from ..shell.console import mistakes_in_one_line, print_note, print_table
from ..shell.options import parse_early, parse_options
from ..shell.parsers import printable
from ..train.arguments import given_settings

RECIPE = FOLDERS["config"] / "demo.yaml"
_OWN_FOLDER = "outputs/demo"
"""The recipe's folder, which each run of the demo replaces: nobody's work lies there."""
_WHEN = ("before", "after")
_UNUSED = {
    "credit": "--method says it",
    "solution_column": "the demo makes its own problems",
    "step_size": f"the demo's steps end with {STEP_DELIMITER!r}",
    "extraction": "the demo's model boxes its answers",
    "resume_from_checkpoint": "the demo trains the shipped model, for some minutes",
}
"""Fields that must keep their default because the demo does not use them, and why."""


@dataclass
class DemoArguments:
    """Arguments of `barl demo` that [`BARLConfig`] does not have; `demo.yaml` has its values."""

    method: str = option(
        "barl",
        "Credit of each step, by a name that `barl train --method` takes.",
    )

    def __post_init__(self):
        check_method(self.method)


def main(argv: list[str]) -> None:
    """Parse options over the demo's recipe, then run it and print the table."""
    has_recipe = any(word.split("=")[0] == "--config" for word in argv)
    recipe = [] if has_recipe else ["--config", str(RECIPE)]
    first = (DemoArguments, BARLFields)
    with mistakes_in_one_line("barl demo"):
        if early := parse_early("barl demo", [*recipe, *argv], first, trl=["GRPOConfig"]):
            demo_args, barl_fields, trl_fields = early
            settings = given_settings(barl_fields, trl_fields)
            _check(settings)
            settings.overwrite_output_dir = True  # there is no checkpoint to resume from
            refuse_early(demo_args.method, barl_fields, settings)
        # imported late: TRL and torch take seconds
        from ...trainer import BARLConfig

        kinds = (DemoArguments, BARLConfig)
        demo_args, args = parse_options("barl demo", [*recipe, *argv], kinds)
        _check(args)
        args.overwrite_output_dir |= args.output_dir == _OWN_FOLDER
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    from .run import run

    _print_summary(run(demo_args.method, args), args.output_dir)


def _check(settings: Any) -> None:
    """Refuse settings that would change nothing, and the folder of an earlier run."""
    if settings.max_steps < 1:
        raise ValueError(
            f"max_steps must be at least 1, got {settings.max_steps}: the problems have no end, so "
            "there are no epochs."
        )
    for name, why in _UNUSED.items():
        if getattr(settings, name) != getattr(type(settings), name):  # the field's default
            raise ValueError(f"{name} must be left out, got {getattr(settings, name)!r}: {why}.")
    if not settings.overwrite_output_dir and settings.output_dir != _OWN_FOLDER:
        refuse_used(Path(settings.output_dir), is_resumable=False)


def _print_summary(summary: dict[str, Any], output_dir: str) -> None:
    rows = []
    for label, name in (("sampled accuracy", "sampled"), ("greedy accuracy", "greedy")):
        rows.append({"": label} | {when: _accuracy(summary[when], name) for when in _WHEN})
    for label, name in (("mean tokens", "tokens"), ("repeats per rollout", "repeats")):
        cells = {when: f"{summary[when][f'sampled_{name}']:.2f}" for when in _WHEN}
        rows.append({"": label} | cells)
    title = f"{summary['held_out_problems']} held-out problems, {summary['method']}"
    print_table(title, rows, align="right")
    print_note(
        f"In brackets: interval of 95 % over problems. {summary['seconds']:.0f} s. "
        f"In {output_dir}: the model, training.png, curves.json, summary.json, trainer_state.json."
    )
    if summary["page"]:
        print_note("What every rollout believed, and what its tokens were worth, in a browser:")
        print(printable(summary["page"]))


def _accuracy(evaluation: dict[str, Any], name: str) -> str:
    """Format an accuracy in percent, with its interval over problems."""
    mean, error = (evaluation[f"{name}_{key}"] for key in ("accuracy", "standard_error"))
    low, high = interval(mean, error, evaluation["problems"])
    return f"{100 * mean:.1f} % [{100 * max(low, 0):.1f}, {100 * min(high, 1):.1f}]"
