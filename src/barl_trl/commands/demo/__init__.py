"""`barl demo`: a tiny model learns to find out, on a CPU in minutes.

An agent that asks at random is trained with GRPO and with the Bayes return, side by side. With
`--task search` a model that explores badly is trained with BARL or a baseline.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ...evaluation.statistics.metrics import interval
from ...synthetic.search import STEP_DELIMITER
from ...trainer.checkpoints.output_folder import refuse_used
from ...trainer.config import option
from ..recipes import FOLDERS
from ..shell.console import mistakes_in_one_line, print_note, print_table
from ..shell.options import parse_options
from ..shell.parsers import printable

_OWN_FOLDER = "outputs/demo"
"""The recipes' folder, which each run of the demo replaces: nobody's work lies there."""
_WHEN = ("before", "after")


class _Task(NamedTuple):
    """A task of the demo."""

    recipe: Path
    unused: dict[str, str]
    """Fields that must keep their default because the task does not use them, and why."""


_OF_ALL = {
    "solution_column": "the demo makes its own problems",
    "extraction": "the demo's model boxes its answers",
    "resume_from_checkpoint": "the demo trains the shipped model, for some minutes",
}
TASKS = {
    "inquiry": _Task(
        FOLDERS["config"] / "demo.yaml",
        _OF_ALL | {"step_size": "a step is a turn"},
    ),
    "search": _Task(
        FOLDERS["config"] / "demo-search.yaml",
        _OF_ALL
        | {
            "credit": "--method says it",
            "step_size": f"the demo's steps end with {STEP_DELIMITER!r}",
        },
    ),
}
"""The demo's tasks by name."""


@dataclass
class DemoArguments:
    """Arguments of `barl demo` that [`BARLConfig`] does not have."""

    task: str = option(
        "inquiry",
        "What is learned: `inquiry` trains an agent that finds out a number, once with GRPO and "
        "once with the credit of `--credit`; `search` trains a model that tries candidates.",
    )
    method: str = option(
        "barl",
        "With `--task search`: credit of each step, by a name that `barl train --method` takes.",
    )

    def __post_init__(self):
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {[*TASKS]}, got {self.task!r}.")
        if self.task == "inquiry" and self.method != "barl":
            raise ValueError(
                f"method must be left out with task='inquiry', got {self.method!r}: --credit names "
                "the credit that is trained beside GRPO."
            )


def main(argv: list[str]) -> None:
    """Parse options over the task's recipe, then run it and print the table."""
    has_recipe = any(word.split("=")[0] == "--config" for word in argv)
    with mistakes_in_one_line("barl demo"):
        recipe = [] if has_recipe else ["--config", str(TASKS[_task_of(argv)].recipe)]
        if _task_of(argv) == "inquiry" and _given(argv, "--credit") == "grpo":
            raise ValueError(
                "credit must be another than 'grpo', got 'grpo': GRPO is trained anyway. Leave it "
                "out for 'bayes'."
            )
        # imported late: TRL and torch take seconds
        from ...trainer import BARLConfig

        kinds = (DemoArguments, BARLConfig)
        demo_args, args = parse_options("barl demo", [*recipe, *argv], kinds)
        _check(demo_args.task, args)
        args.overwrite_output_dir |= args.output_dir == _OWN_FOLDER
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    if demo_args.task == "inquiry":
        from . import inquiry

        _print_inquiry(inquiry.table_rows(summary := inquiry.run(args)), summary, args.output_dir)
    else:
        from . import search

        _print_search(search.run(demo_args.method, args), args.output_dir)


def _task_of(argv: list[str]) -> str:
    """Return the task that the words of a command line name; the default for an unknown one."""
    named = _given(argv, "--task") or DemoArguments.task
    return named if named in TASKS else DemoArguments.task


def _given(argv: list[str], option: str) -> str | None:
    words = [part for word in argv for part in word.split("=", 1)]
    return dict(pairwise(words)).get(option)


def _check(task: str, settings: Any) -> None:
    """Refuse settings that would change nothing, and the folder of an earlier run."""
    if settings.max_steps < 1:
        raise ValueError(
            f"max_steps must be at least 1, got {settings.max_steps}: the problems have no end, so "
            "there are no epochs."
        )
    for name, why in TASKS[task].unused.items():
        if getattr(settings, name) != getattr(type(settings), name):  # the field's default
            raise ValueError(f"{name} must be left out, got {getattr(settings, name)!r}: {why}.")
    if not settings.overwrite_output_dir and settings.output_dir != _OWN_FOLDER:
        refuse_used(Path(settings.output_dir), is_resumable=False)


def _print_inquiry(rows: list[dict[str, str]], summary: dict[str, Any], output_dir: str) -> None:
    print_table("Which number from 1 to 16 is it? Four questions, one answer", rows, align="right")
    possible = ", ".join(f"{name} {100 * p:.0f} %" for name, p in summary["references"].items())
    print_note(
        f"Possible: {possible}. In brackets: interval of 95 % over games; one seed of training. "
        f"{summary['seconds']:.0f} s. In {output_dir}: training.png, curves.json, summary.json, "
        "and a folder for each arm."
    )
    print_note("On three other games bayes helps little or not at all: docs/inquiry.md.")
    if summary["page"]:
        print_note("What each observation left, turn by turn, for both arms, in a browser:")
        print(printable(summary["page"]))


def _print_search(summary: dict[str, Any], output_dir: str) -> None:
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
