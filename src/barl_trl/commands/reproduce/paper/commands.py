"""The commands of the experiments, which a user could also type, one run after another."""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ....report.json_files import write_json
from ...recipes import file_of
from ...shell.jobs import FileJob
from .scales import Model, Scale

BASE = "base"  # the arm of the model that is not trained
DONE = "done"  # the folder of a file for each command that is done

_SAMPLING = {"greedy": [], "sampled": ["--temperature", "1.0", "--num_samples", "6"]}
"""Options of `barl evaluate` by folder of responses, for the paper's pass@1 and its pass@k."""


class Command(NamedTuple):
    """A step of the experiments, by its name and its command line."""

    name: str
    argv: list[str]

    def job(self, folder: Path, environment: dict[str, str]) -> FileJob:
        """Return the job that runs the command, and writes into `folder` that it is done."""
        name = self.name.replace(" ", "-")
        key = hashlib.sha256(json.dumps(self.argv).encode()).hexdigest()[:8]
        log = folder / "logs" / f"{name}.txt"
        return FileJob(folder / DONE / f"{name}-{key}.json", _run, (self, log, environment))


def _run(path: Path, command: Command, log: Path, environment: dict[str, str]) -> None:
    """Run a command, and write its command line and its seconds to `path`.

    If it fails, the RuntimeError has the end of its output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with log.open("w", encoding="utf-8") as output:
        streams = {"stdout": output, "stderr": subprocess.STDOUT}
        status = subprocess.run(command.argv, env=environment, check=False, **streams).returncode
    if status:
        end = "\n".join(log.read_text(errors="replace", encoding="utf-8").splitlines()[-5:])
        raise RuntimeError(f"{command.name} failed, see {log}:\n{end}")
    seconds = round(time.perf_counter() - started)
    write_json(path, {"argv": command.argv, "seconds": seconds})


def run_folder(folder: Path, model: str, arm: str, seed: int | None) -> Path:
    """Return the folder of a run and of its responses."""
    return folder / f"{model}-{arm}" if seed is None else folder / f"{model}-{arm}-seed{seed}"


def stages(scale: Scale, folder: Path, seeds: Sequence[int]) -> list[list[Command]]:
    """Return trainings, then evaluations, also of the base models, then figures."""
    trainings, evaluations = [], []
    for model in scale.models:
        for arm in (BASE, *model.arms):
            for seed in [None] if arm == BASE else seeds:
                run = run_folder(folder, model.name, arm, seed)
                if seed is not None:
                    trainings.append(_training(scale, model, run, arm, seed))
                for mode, more in _SAMPLING.items():
                    options = ["--model", model.path if seed is None else str(run)]
                    options += ["--benchmarks", scale.named(), "--output_dir", str(run / mode)]
                    options += [*scale.evaluate, *more, "--template", model.template]
                    argv = [sys.executable, "-m", "barl_trl.cli", "evaluate", *options]
                    evaluations.append(Command(f"evaluate {run.name} {mode}", argv))
    return [trainings, evaluations, [*_analyses(scale, folder, seeds)]]


def _training(scale: Scale, model: Model, run: Path, arm: str, seed: int) -> Command:
    launcher = scale.launcher or [sys.executable]
    options = ["--config", str(file_of("config", model.recipe)), "--method", arm]
    options += ["--model_name_or_path", model.path, "--seed", str(seed)]
    options += ["--output_dir", str(run), *scale.train, *scale.arm_options.get(arm, [])]
    options += ["--resume_from_checkpoint", "auto"]
    return Command(f"train {run.name}", [*launcher, "-m", "barl_trl.cli", "train", *options])


def _analyses(scale: Scale, folder: Path, seeds: Sequence[int]) -> Iterator[Command]:
    """Yield the commands of each model's figures: curves of all seeds, the others of the first."""
    barl = [sys.executable, "-m", "barl_trl.cli", "analyze"]
    for model in scale.models:
        first = {
            arm: run_folder(folder, model.name, arm, None if arm == BASE else seeds[0])
            for arm in (BASE, *model.arms)
        }
        named = ["--names", *first]
        figures = ["--output_dir", str(folder / "figures" / model.name)]
        sampled = [str(run / "sampled") for run in first.values()]
        greedy = [str(run / "greedy") for run in first.values()]
        options = {
            "efficiency": ["--sampled", *sampled, "--greedy", *greedy, *named],
            "reflections": [*sampled, *named, *scale.reflections],
            "values": [*sampled, *named, *scale.values],
            "curves": [
                f"{arm}={run_folder(folder, model.name, arm, seed)}"
                for arm in model.arms
                for seed in seeds
            ],
        }
        for name, more in options.items():
            yield Command(f"analyze {name} {model.name}", [*barl, name, *more, *figures])
