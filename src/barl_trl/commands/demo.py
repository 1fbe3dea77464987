"""`barl demo`: a tiny model learns to explore, on a CPU in minutes.

The shipped model knows the arithmetic of the search task and explores badly. It is trained on fresh
problems with BARL (or a baseline), and evaluated on held-out ones before and after.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation.results import percent
from ..synthetic.search import STEP_DELIMITER
from ..trainer.barl_fields import BARLFields, Method, option
from .console import print_note, print_table
from .options import parse_options

RECIPE = Path(__file__).parents[1] / "recipes" / "demo.yaml"
UNUSED = {
    "step_size": f"the demo's steps end with {STEP_DELIMITER!r}",
    "resume_from_checkpoint": "the demo trains the shipped model, for some minutes",
}
"""Fields that would change nothing, and why."""


@dataclass
class DemoArguments:
    """Arguments of `barl demo` beside [`BARLConfig`], whose values are those of `demo.yaml`."""

    method: Method = option(
        "barl",
        "`barl`, or a baseline on the same problems: `progress`, `grpo`, `grpo_length_controlled`.",
    )


def main(argv: list[str]) -> None:
    """Parse options over the demo's recipe, then run it and print the table.

    Raises:
        ValueError: An option would change nothing, or asks for epochs.
    """
    recipe = [] if "--config" in argv else ["--config", str(RECIPE)]
    first = (DemoArguments, BARLFields)
    demo_args, args = parse_options("barl demo", [*recipe, *argv], first, _all_arguments)
    if args.max_steps < 1:
        raise ValueError(
            f"max_steps must be at least 1, got {args.max_steps}: the problems have no end, so "
            "there are no epochs."
        )
    for name, why in UNUSED.items():
        if getattr(args, name) != type(args).__dataclass_fields__[name].default:
            raise ValueError(f"{name} must be left out, got {getattr(args, name)!r}: {why}.")
    from .demo_run import run

    print_summary(run(demo_args.method, args), args.output_dir)


def _all_arguments():
    from ..trainer import BARLConfig

    return DemoArguments, BARLConfig


def print_summary(summary: dict[str, Any], output_dir: str) -> None:
    """Print the summary as a table."""
    both = {"before": summary["before"], "after": summary["after"]}
    rows = []
    for label, name in (("greedy accuracy", "greedy"), ("sampled accuracy", "sampled")):
        cells = {
            column: percent(row[f"{name}_accuracy"], row[f"{name}_standard_error"])
            for column, row in both.items()
        }
        rows.append({"": label} | cells)
    for label, name in (("mean tokens", "tokens"), ("repeats per rollout", "repeats")):
        cells = {column: f"{row[f'sampled_{name}']:.2f}" for column, row in both.items()}
        rows.append({"": label} | cells)
    title = f"{summary['held_out_problems']} held-out problems, {summary['method']}"
    print_table(title, rows, align="right")
    print_note(
        f"{summary['seconds']:.0f} s. In {output_dir}: the model, training.png, beliefs.png, "
        "summary.json, trainer_state.json."
    )
