"""The report of the experiments, from the files that they left."""

import os
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from ....evaluation.statistics.metrics import mean_and_standard_error
from ....report.json_files import read_json, write_json
from ....report.paper_report import ASSETS, write_report
from .commands import BASE, run_folder
from .scales import Model, Scale


def _accuracies(folder: Path, scale: Scale, model: Model, arm: str, seeds) -> dict[str, Any]:
    """Return an arm's row: mean greedy accuracies in %, with several seeds the standard error."""
    runs = [None] if arm == BASE else seeds
    results = [
        read_json(run_folder(folder, model.name, arm, s) / "greedy" / "results.json") for s in runs
    ]
    shares = {
        name: [100 * result["benchmarks"][name]["accuracy"] for result in results]
        for name in scale.benchmarks
    }
    shares["average"] = [fmean(row) for row in zip(*shares.values(), strict=True)]
    name = arm if len(scale.models) == 1 else f"{model.name}, {arm}"
    return {"arm": name} | {
        benchmark: [number for number in mean_and_standard_error(values) if number is not None]
        for benchmark, values in shares.items()
    }


def _on_one_line(options: Sequence[str]) -> str:
    r"""Return options as they are typed in a shell, with `\n` for a line break."""
    return shlex.join(options).replace("\n", "\\n")


def report(scale: Scale, folder: Path, seeds: Sequence[int], seconds: int) -> Path:
    """Write the report of a folder's runs, which took some seconds; return the path of the page."""
    figures = read_json(ASSETS / "paper_figures.json")
    packages = ("barl-trl", "torch", "transformers", "trl")
    content = {
        "title": "BARL and its baselines",
        "summary": "All arms start from the same model and train on the same data, seed by seed in "
        "the same order.",
        "seeds": list(seeds),
        "benchmarks": list(scale.benchmarks),
        **scale.report,
        "table": [
            _accuracies(folder, scale, model, arm, seeds)
            for model in scale.models
            for arm in (BASE, *model.arms)
        ],
        "figures": [
            {
                "title": f"{model.name}: {figure['title']}",
                "caption": figure["caption"],
                "file": f"figures/{model.name}/{figure['name']}.png",
            }
            for model in scale.models
            for figure in figures
        ],
        "settings": {
            "recipes": ", ".join(f"recipes/{model.recipe}.yaml" for model in scale.models),
            "options of barl train": _on_one_line(scale.train),
            **{f"more of them for {arm}": _on_one_line(o) for arm, o in scale.arm_options.items()},
            "options of barl evaluate": _on_one_line(scale.evaluate),
            "figures are of seed": seeds[0],
            "versions": ", ".join(f"{name} {version(name)}" for name in packages),
            "machine": f"{os.cpu_count()} CPU cores, {torch.accelerator.device_count()} devices",
            "the commands took": f"{seconds / 60:.0f} minutes, {scale.at_once} at a time",
        },
    }
    write_json(folder / "report.json", content)
    return write_report(folder / "report.json")[0]
