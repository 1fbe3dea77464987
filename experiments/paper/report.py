"""The paper's experiments: trains and evaluates all arms, and writes `report.md`.

At the scale `demo`, search problems and a tiny model, on a CPU within an hour; at `paper`, the
paper's models and data, on the GPUs of one machine.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from string import Template
from typing import Any

import torch
import yaml

from barl_trl.evaluation.statistics import mean_and_standard_error
from barl_trl.synthetic.search import TINY_MODEL_DIR, search_rows

from ..tools import FileJob, read_json, run_jobs, table, write_json

HERE = Path(__file__).parent
BASE = "base"  # the arm of the model that is not trained
_NUM_TRAINED, _NUM_EVALUATED, _HELD_OUT_SEED = 20_000, 200, 11
_SAMPLING = {"greedy": [], "sampled": ["--temperature", "1.0", "--num_samples", "6"]}
"""Options of `barl evaluate` by folder of responses, for the paper's pass@1 and its pass@k."""
_FIGURES = {
    "efficiency": "Pass@k against the mean total tokens of k responses, the greedy one among them.",
    "efficiency_sampled": "The same without the greedy response.",
    "reflections": "Share of problems with a reflection in any of 6 responses, by the wrong ones.",
    "bayesian_values": "Bayesian values along sampled responses, under each model's own beliefs.",
    "posterior_weighted_values": "The values that weigh the gradient, on the same responses.",
    "curves": "Accuracy and length over training: mean and standard error over seeds.",
}
"""File of a figure -> its caption."""


def read_scale(name: str, **values: object) -> dict[str, Any]:
    """Read a scale from its file, and fill in the values that the file leaves open."""
    text = (HERE / "scales" / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(Template(text).substitute(values))


def demo_scale(folder: Path, max_steps: int = 80) -> dict[str, Any]:
    """Write the problems of the search task, and return the scale of the tiny model on them."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    held_out: Any = {"seed": _HELD_OUT_SEED, "held_out": True}
    sets = {
        "train": search_rows(_NUM_TRAINED, seed=0),
        "search": search_rows(_NUM_EVALUATED, **held_out),
        "search_9": search_rows(_NUM_EVALUATED, **held_out, num_candidates=9),
    }
    for name, rows in sets.items():
        pairs = ({"problem": row["prompt"].strip(), "answer": row["solution"]} for row in rows)
        text = "".join(json.dumps(pair) + "\n" for pair in pairs)
        (data / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (data / "keywords.txt").write_text(", no\n", encoding="utf-8")
    steps = {"max_steps": max_steps, "eval_steps": max(1, max_steps // 4)}
    places = {"data": data, "tiny_model": TINY_MODEL_DIR, "cores": os.cpu_count() or 1}
    return read_scale("demo", **steps, **places)


def paper_scale() -> dict[str, Any]:
    """Return the paper's models and data, on the GPUs of this machine."""
    devices = torch.accelerator.device_count() or 8
    zero2 = HERE.parents[1] / "accelerate_configs" / "zero2.yaml"
    return read_scale("paper", python=sys.executable, zero2=zero2, devices=devices)


def _options(settings: dict[str, Any]) -> list[str]:
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def run_folder(folder: Path, model: str, arm: str, seed: int | None) -> Path:
    """Return the folder of a run and of its responses."""
    return folder / f"{model}-{arm}" if seed is None else folder / f"{model}-{arm}-seed{seed}"


def stages(scale: dict[str, Any], folder: Path, seeds: Sequence[int]) -> list[dict[str, list[str]]]:
    """Return the command lines of trainings, evaluations and figures, by name."""
    trainings: dict[str, list[str]] = {}
    evaluations: dict[str, list[str]] = {}
    benchmarks = ",".join(f"{n}={path}" if path else n for n, path in scale["benchmarks"].items())
    barl = ["-m", "barl_trl", "evaluate", "--benchmarks", benchmarks]
    for model in scale["models"]:
        for arm in (BASE, *model["arms"]):
            for seed in [None] if arm == BASE else seeds:
                run = run_folder(folder, model["name"], arm, seed)
                if seed is not None:
                    trainings[f"train {run.name}"] = _training(scale, model, run, arm, seed)
                for mode, more in _SAMPLING.items():
                    options = ["--model", model["path"] if seed is None else str(run)]
                    options += ["--output_dir", str(run / mode), "--template", model["template"]]
                    options += [*_options(scale["evaluate"]), *more]
                    name = f"evaluate {run.name} {mode}"
                    evaluations[name] = [sys.executable, *barl, *options]
    return [trainings, evaluations, dict(_analyses(scale, folder, seeds))]


def _training(
    scale: dict[str, Any], model: dict[str, Any], run: Path, arm: str, seed: int
) -> list[str]:
    recipe = HERE.parents[1] / "recipes" / f"{model['recipe']}.yaml"
    settings = {
        "config": recipe,
        "model_name_or_path": model["path"],
        "seed": seed,
        "output_dir": run,
        "credit": arm,
        **scale["train"],
        **scale["arms"].get(arm, {}),
        "resume_from_checkpoint": "auto",
    }
    launcher = scale["launcher"] or [sys.executable]
    return [*launcher, "-m", "barl_trl", "train", *_options(settings)]


def _analyses(
    scale: dict[str, Any], folder: Path, seeds: Sequence[int]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of each model's figures: curves of all seeds, the others of the first."""
    for model in scale["models"]:
        name, arms = model["name"], model["arms"]
        firsts = [run_folder(folder, name, BASE, None)]
        firsts += [run_folder(folder, name, arm, seeds[0]) for arm in arms]
        sampled = [str(run / "sampled") for run in firsts]
        named = ["--names", BASE, *arms]
        greedy = [str(run / "greedy") for run in firsts]
        options = {
            "efficiency": ["--sampled", *sampled, "--greedy", *greedy, *named],
            "reflections": [*sampled, *named, *_options(scale["reflections"])],
            "values": [*sampled, *named, *_options(scale["values"])],
            "curves": [
                f"{arm}={run_folder(folder, name, arm, seed)}" for arm in arms for seed in seeds
            ],
        }
        for analysis, more in options.items():
            argv = [sys.executable, "-m", f"experiments.paper.{analysis}", *more]
            yield f"{analysis} {name}", [*argv, "--output_dir", str(folder / "figures" / name)]


def run_command(path: Path, name: str, argv: list[str], threads: int) -> None:
    """Run a command, and write its command line to `path`.

    Raises:
        RuntimeError: It failed; this is the end of its output.
    """
    log = path.with_suffix(".log")
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with log.open("w", encoding="utf-8") as output:
        streams: Any = {"stdout": output, "stderr": subprocess.STDOUT}
        status = subprocess.run(
            argv, cwd=HERE.parents[1], env=environment, check=False, **streams
        ).returncode
    if status:
        end = "\n".join(log.read_text(errors="replace", encoding="utf-8").splitlines()[-5:])
        raise RuntimeError(f"{name} failed, see {log}:\n{end}")
    write_json(path, {"argv": argv})


def run(scale: dict[str, Any], folder: Path, seeds: Sequence[int]) -> None:
    """Run what is not done, and write the report."""
    threads = max(1, (os.cpu_count() or 1) // scale["at_once"])
    for commands in stages(scale, folder, seeds):
        jobs = []
        for name, argv in commands.items():
            key = hashlib.sha256(json.dumps(argv).encode()).hexdigest()[:8]
            path = folder / "done" / f"{name.replace(' ', '-')}-{key}.json"
            jobs.append(FileJob(path, run_command, (name, argv, threads)))
        for start in range(0, len(jobs), scale["at_once"]):
            run_jobs("reproduce", jobs[start : start + scale["at_once"]])
    (folder / "report.md").write_text(report(scale, folder, seeds), encoding="utf-8")


def report(scale: dict[str, Any], folder: Path, seeds: Sequence[int]) -> str:
    """Return the report of a folder's runs, in Markdown."""
    rows = [
        _accuracies(folder, scale, model["name"], arm, seeds)
        for model in scale["models"]
        for arm in (BASE, *model["arms"])
    ]
    papers = read_json(HERE / "results.json")
    columns = [name for name in papers[0] if name not in ("model", "arm")]
    paper_rows = [
        [row["model"], row["arm"], *(_percent(row[name]) for name in columns)] for row in papers
    ]
    figures = [
        f"![{model['name']}: {caption}](figures/{model['name']}/{name}.png)\n\n{caption}"
        for model in scale["models"]
        for name, caption in _FIGURES.items()
    ]
    options = {name: shlex.join(_options(scale[name])) for name in ("train", "evaluate")}
    parts = [
        "# BARL and its baselines",
        "All arms start from the same model and train on the same data, seed by seed in the same "
        f"order. Greedy pass@1 in %, mean ± standard error over the training seeds {[*seeds]}. "
        + scale["benchmarks_note"],
        table(["arm", *scale["benchmarks"], "average"], rows),
        *figures,
        "## The paper's numbers",
        "Not ours: table 1 of [arXiv 2505.20561](https://arxiv.org/abs/2505.20561). "
        + scale["comparison"],
        table(["model", "arm", *columns], paper_rows),
        "## How it was made",
        table(
            ["options of", ""], [[f"barl {name}", f"`{text}`"] for name, text in options.items()]
        ),
        *(f"Not run: {line}" for line in scale["not_run"]),
    ]
    return "\n\n".join(parts) + "\n"


def _accuracies(
    folder: Path, scale: dict[str, Any], model: str, arm: str, seeds: Sequence[int]
) -> list[str]:
    """Return an arm's row: mean greedy accuracies in %, with several seeds the standard error."""
    runs = [run_folder(folder, model, arm, s) for s in ([None] if arm == BASE else seeds)]
    found = [read_json(run / "greedy" / "results.json")["benchmarks"] for run in runs]
    shares = [[100 * one[name]["accuracy"] for one in found] for name in scale["benchmarks"]]
    shares.append([fmean(row) for row in zip(*shares, strict=True)])
    estimates = map(mean_and_standard_error, shares)
    return [f"{model}, {arm}", *map(_percent, estimates)]


def _percent(numbers: Sequence[float | None]) -> str:
    return " ± ".join(f"{number:.1f}" for number in numbers if number is not None)


def main(argv: list[str] | None = None) -> None:
    """Train and evaluate all arms, or print the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=("demo", "paper"), default="demo")
    parser.add_argument("--seeds", type=int, default=3, help="seeds per arm (default: 3)")
    parser.add_argument("--max_steps", type=int, default=80, help="of a training of the demo")
    parser.add_argument("--plan", action="store_true", help="print the commands, and run nothing")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/paper"))
    options = parser.parse_args(argv)
    folder, seeds = options.output_dir.resolve(), range(options.seeds)
    scale = paper_scale() if options.scale == "paper" else demo_scale(folder, options.max_steps)
    if options.plan:
        for argv in chain.from_iterable(stage.values() for stage in stages(scale, folder, seeds)):
            print(shlex.join(argv))
        return
    run(scale, folder, seeds)
    print(f"In {folder}: report.md; runs, responses and figures.")


if __name__ == "__main__":
    main()
