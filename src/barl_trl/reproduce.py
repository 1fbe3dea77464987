"""`barl reproduce`: the paper's didactic example and its decision tree, from nothing to figures."""

import argparse
import csv
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .report import tree_figure, triplets_figure
from .synthetic import tree_gap
from .synthetic.triplet_references import references
from .synthetic.triplets import ARMS, MORE_ARMS, Arm, Settings, train

ACCURACIES = ("train_accuracy", "unseen_accuracy")
SOLVED = 0.9
"""Mean accuracy of the seeds, on training prompts and on the unseen one, that counts as learned."""


def triplets(
    output_dir: Path, *, seeds: int = 3, settings: Settings, arms: dict[str, Arm], jobs: int
) -> dict[str, Any]:
    """Train every arm with every seed and write `results.json`, `curves.csv`, `triplets.png`.

    Args:
        output_dir: Folder for the files.
        seeds: Number of seeds, from 0.
        settings: How a policy is trained; the same for all arms.
        arms: The arms by name.
        jobs: Number of processes.

    Returns:
        The contents of `results.json`.
    """
    started = time.perf_counter()
    output_dir.mkdir(parents=True, exist_ok=True)
    records = sorted(
        _records(arms, seeds, settings, jobs),
        key=lambda r: ([*arms].index(r["arm"]), r["seed"], r["iteration"]),
    )
    results = {
        "arms": {name: asdict(arm) for name, arm in arms.items()},
        "settings": asdict(settings) | {"seeds": seeds, "torch": torch.__version__},
        "references": references(),
        "seconds": round(time.perf_counter() - started, 1),
        "records": records,
    }
    path = output_dir / "results.json"
    path.write_text(json.dumps(results, indent=1))
    with (output_dir / "curves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["arm", "seed", "iteration", *ACCURACIES])
        writer.writeheader()
        writer.writerows(records)
    triplets_figure.draw(path, output_dir / "triplets.png")
    return results


def _records(
    arms: dict[str, Arm], seeds: int, settings: Settings, jobs: int
) -> Iterator[dict[str, Any]]:
    """Records of all arms and seeds, as the processes report them."""
    runs = [(name, seed) for seed in range(seeds) for name in arms]
    context = get_context("spawn")
    reports: Any = context.Manager().Queue()
    with (
        context.Pool(jobs, torch.set_num_threads, (1,)) as pool,
        Progress(transient=True) as progress,
    ):
        task = progress.add_task("training", total=len(runs) * (settings.evaluations + 1))
        run = partial(_run, arms=arms, settings=settings, reports=reports)
        pending = pool.map_async(run, runs)
        while not pending.ready() or not reports.empty():
            if not reports.empty():
                progress.advance(task)
                yield reports.get()
            else:
                time.sleep(0.1)
        pending.get()  # raises what a process raised


def _run(run: tuple[str, int], *, arms: dict[str, Arm], settings: Settings, reports: Any) -> None:
    name, seed = run
    train(
        arms[name],
        seed,
        settings,
        lambda record: reports.put({"arm": name, "seed": seed, **record}),
    )


def triplet_rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """Final accuracies of each arm, and how many iterations it needed."""
    rows = []
    for arm, setting in results["arms"].items():
        records = [record for record in results["records"] if record["arm"] == arm]
        last = max(record["iteration"] for record in records)
        final = [record for record in records if record["iteration"] == last]
        rows.append(
            {
                "arm": setting["title"],
                "training prompts": _mean_and_deviation([r["train_accuracy"] for r in final]),
                "unseen prompt": _mean_and_deviation([r["unseen_accuracy"] for r in final]),
                "iterations needed": _iterations_needed(records),
            }
        )
    return rows


def _mean_and_deviation(values: list[float]) -> str:
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):.2f}{spread}"


def _iterations_needed(records: list[dict[str, Any]]) -> str:
    """The first evaluation from which on both mean accuracies stay at `SOLVED`."""
    needed = "never"
    for iteration in sorted({record["iteration"] for record in records}, reverse=True):
        here = [record for record in records if record["iteration"] == iteration]
        if any(mean(record[name] for record in here) < SOLVED for name in ACCURACIES):
            break
        needed = str(iteration)
    return needed


def tree(output_dir: Path) -> dict[str, Any]:
    """Solve the decision trees and write `results.json` and `tree.png`; returns the former."""
    output_dir.mkdir(parents=True, exist_ok=True)
    results = tree_gap.results()
    path = output_dir / "results.json"
    path.write_text(json.dumps(results, indent=1))
    tree_figure.draw(path, output_dir / "tree.png")
    return results


def show(title: str, rows: list[dict[str, str]]) -> None:
    """Prints rows as a table."""
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*row.values())
    Console().print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="barl reproduce",
        description="The paper's didactic example (section 4), decision tree (Theorem 3) and "
        "experiments (section 6).",
    )
    commands = parser.add_subparsers(dest="example", required=True, metavar="EXAMPLE")
    triplets_help = "train policies to find the triplet that pays: RL against BARL (minutes)"
    one = commands.add_parser("triplets", help=triplets_help, description=triplets_help)
    one.add_argument("--seeds", type=_at_least_one, default=3, help="seeds per arm (default: 3)")
    one.add_argument(
        "--iterations",
        type=_at_least_one,
        default=Settings.iterations,
        help=f"training iterations (default: {Settings.iterations})",
    )
    one.add_argument("--quick", action="store_true", help="one seed, an eighth of the iterations")
    one.add_argument(
        "--more_arms",
        action="store_true",
        help="also RL with BARL's entropy bonus, and the paper's text read literally",
    )
    one.add_argument("--output_dir", type=Path, default=Path("outputs/triplets"))
    tree_help = "solve the trees of the theorem on the gap to Markovian policies (seconds)"
    two = commands.add_parser("tree", help=tree_help, description=tree_help)
    two.add_argument("--output_dir", type=Path, default=Path("outputs/tree"))
    paper_help = "train and evaluate all arms, and write one report (demo: within an hour)"
    three = commands.add_parser("paper", help=paper_help, description=paper_help)
    three.add_argument(
        "--scale",
        choices=("demo", "paper"),
        default="demo",
        help="demo: search problems and a tiny model on a CPU. paper: its models and data, on GPUs",
    )
    three.add_argument("--seeds", type=_at_least_one, default=3, help="per arm (default: 3)")
    three.add_argument("--plan", action="store_true", help="print cost and commands, run nothing")
    three.add_argument("--output_dir", type=Path, default=Path("outputs/paper"))
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def main(argv: list[str] | None = None) -> None:
    """`barl reproduce triplets|tree|paper`."""
    options = _parser().parse_args(argv)
    if options.example == "paper":
        from .paper.run import main as paper

        paper(options.scale, options.output_dir, range(options.seeds), is_plan=options.plan)
        return
    if options.example == "tree":
        results = tree(options.output_dir)
        show("Return within the steps that the adaptive policy needs", tree_gap.table_rows(results))
        print(f"In {options.output_dir}: results.json, tree.png.")
        return
    shrink = 8 if options.quick else 1
    results = triplets(
        options.output_dir,
        seeds=1 if options.quick else options.seeds,
        settings=replace(Settings(), iterations=max(1, options.iterations // shrink)),
        arms=ARMS | MORE_ARMS if options.more_arms else ARMS,
        jobs=len(os.sched_getaffinity(0)),
    )
    settings = results["settings"]
    show(
        f"Accuracy after {settings['iterations']} iterations, {settings['seeds']} seed(s), "
        f"{settings['completions']} completions per prompt",
        triplet_rows(results),
    )
    show("Exact", [{"policy": k, "value": f"{v:.4g}"} for k, v in results["references"].items()])
    print(
        f"{results['seconds']:.0f} s. In {options.output_dir}: triplets.png, curves.csv, "
        "results.json."
    )
