"""The paper's didactic example: every arm trained with every seed, as files and as a table."""

import time
from dataclasses import asdict
from pathlib import Path
from shutil import rmtree
from statistics import mean, stdev
from typing import Any

import torch

from ...report.figures import triplets_figure
from ...report.json_files import read_json, write_json
from ...synthetic.triplets import REFERENCES, Settings, TripletArm, train
from ..shell.console import progress_bar
from ..shell.jobs import FileJob, run_jobs

_ACCURACIES = ("train_accuracy", "unseen_accuracy")
_SOLVED = 0.9  # the mean accuracy of the seeds, on both kinds of prompts, that is learned


def refuse_results(path: Path) -> None:
    """Refuse a folder that holds the results of an earlier run, at `path`."""
    if path.exists():
        raise ValueError(f"output_dir must be new, got {path.parent} with results: name another.")


def triplets(
    output_dir: Path, *, seeds: int = 3, settings: Settings, arms: dict[str, TripletArm]
) -> dict[str, Any]:
    """Train every arm with every seed, write `results.json` and `triplets.png`, return the former.

    Each run is kept in a file until `results.json` is there, so that a command that was stopped can
    go on. A folder with results is refused.
    """
    path, runs = output_dir / "results.json", output_dir / "runs"
    refuse_results(path)
    started = time.perf_counter()
    jobs = [
        FileJob(runs / f"{name}-{seed}-{settings.iterations}.json", _run, run)
        for seed in range(seeds)
        for name, arm in arms.items()
        for run in [(name, arm, seed, settings)]
    ]
    with progress_bar() as progress:
        task = progress.add_task("training", total=len(jobs))
        run_jobs(jobs, lambda: progress.advance(task))
    records = sorted(
        (record for job in jobs for record in read_json(job.path)),
        key=lambda r: ([*arms].index(r["arm"]), r["seed"], r["iteration"]),
    )
    results = {
        "arms": {name: asdict(arm) for name, arm in arms.items()},
        "settings": asdict(settings) | {"seeds": seeds, "torch": torch.__version__},
        "references": REFERENCES,
        "seconds": round(time.perf_counter() - started, 1),
        "records": records,
    }
    write_json(path, results)
    triplets_figure.draw(path, output_dir / "triplets.png")
    rmtree(runs)  # also what other settings left
    return results


def _run(path: Path, name: str, arm: TripletArm, seed: int, settings: Settings) -> None:
    records = train(arm, seed, settings)
    write_json(path, [{"arm": name, "seed": seed, **record} for record in records])


def triplet_rows(results: dict[str, Any]) -> list[dict[str, str]]:
    """Return the final accuracies of each arm, and how many iterations it needed."""
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


def _mean_and_deviation(accuracies: list[float]) -> str:
    spread = f" ± {stdev(accuracies):.2f}" if len(accuracies) > 1 else ""
    return f"{mean(accuracies):.2f}{spread}"


def _iterations_needed(records: list[dict[str, Any]]) -> str:
    """Return the first evaluation from which on both mean accuracies stay at `_SOLVED`."""
    needed = "never"
    for iteration in sorted({record["iteration"] for record in records}, reverse=True):
        here = [record for record in records if record["iteration"] == iteration]
        if any(mean(record[name] for record in here) < _SOLVED for name in _ACCURACIES):
            break
        needed = str(iteration)
    return needed
