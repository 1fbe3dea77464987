"""The commands of the experiments: what a user could type, one run after another."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..recipes import FOLDERS
from .scales import Scale

RECIPES = FOLDERS["config"]
BASE = "base"
"""The arm of the model that is not trained."""

SAMPLING = {"greedy": [], "sampled": ["--temperature", "1.0", "--num_samples", "6"]}
"""Folder of responses -> options of `barl evaluate`: the paper's pass@1, and its pass@k."""


class Command(NamedTuple):
    """A step: its name, its command line, and the options by which it goes on where it was."""

    name: str
    argv: list[str]
    resume: list[str] = []

    @property
    def key(self) -> str:
        """The whole command: what it is known by when it is done."""
        return json.dumps(self.argv)


def run_folder(folder: Path, model: str, arm: str, seed: int | None) -> Path:
    """Return the folder of a run and of its responses."""
    return folder / f"{model}-{arm}" if seed is None else folder / f"{model}-{arm}-seed{seed}"


def lanes(scale: Scale, folder: Path, seeds: Sequence[int]) -> Iterator[list[Command]]:
    """Yield the commands of every arm and seed, which depend on no other's.

    A run is trained, then evaluated. The base models are only evaluated.
    """
    barl = [sys.executable, "-m", "barl_trl.cli"]
    for model in scale.models:
        for arm in (BASE, *model.arms):
            for seed in [None] if arm == BASE else seeds:
                run = run_folder(folder, model.name, arm, seed)
                checkpoint = model.path if arm == BASE else str(run)
                commands = []
                if arm != BASE:
                    launcher = scale.launcher or [sys.executable]
                    options = ["--config", str(RECIPES / f"{model.recipe}.yaml"), "--method", arm]
                    options += ["--model_name_or_path", model.path, "--seed", str(seed)]
                    options += ["--output_dir", str(run), *scale.train]
                    options += scale.arm_options.get(arm, [])
                    argv = [*launcher, "-m", "barl_trl.cli", "train", *options]
                    resume = ["--resume_from_checkpoint", "auto"]
                    commands.append(Command(f"train {run.name}", argv, resume))
                for mode, more in SAMPLING.items():
                    options = ["--model", checkpoint, "--benchmarks", scale.named()]
                    options += ["--output_dir", str(run / mode), *scale.evaluate, *more]
                    options += ["--template", model.template]
                    name = f"evaluate {run.name} {mode}"
                    commands.append(Command(name, [*barl, "evaluate", *options]))
                yield commands


def analyses(scale: Scale, folder: Path, seeds: Sequence[int]) -> Iterator[Command]:
    """Yield the commands of each model's figures, by the first seed; curves by all."""
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
