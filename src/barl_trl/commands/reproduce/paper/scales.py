"""What is run at each scale: models, arms, data, options."""

import json
import os
import sys
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import torch
import yaml

from ....synthetic.search import TINY_MODEL_DIR, search_rows
from ...recipes import file_of

_SCALES = Path(__file__).parents[3] / "assets" / "scales"
_NUM_TRAINED, _NUM_EVALUATED, _HELD_OUT_SEED = 20_000, 200, 11


class Model(NamedTuple):
    """A model that all arms start from, with its recipe and the template of its prompts."""

    name: str  # in tables and folders
    path: str  # folder or Hub id
    recipe: str
    arms: list[str]
    template: str


class Scale(NamedTuple):
    """What is run, and with what."""

    models: list[Model]
    benchmarks: dict[str, str]  # name -> path; empty: it is loaded from the Hub
    launcher: list[str]  # the command that starts `barl train`
    at_once: int  # runs at a time
    report: dict[str, Any]  # what the report says of the benchmarks, the paper and what was not run
    train: list[str]  # options of these commands
    evaluate: list[str]
    values: list[str]
    reflections: list[str]
    arm_options: dict[str, list[str]]  # those of `barl train` that an arm has of its own

    def named(self) -> str:
        """Return the value of `--benchmarks`: `NAME` or `NAME=PATH` of each, with commas."""
        return ",".join(f"{n}={path}" if path else n for n, path in self.benchmarks.items())


def _read(name: str, **values: object) -> Scale:
    """Read a scale from its file, and fill in the values that the file leaves open."""
    text = (_SCALES / f"{name}.yaml").read_text(encoding="utf-8")
    fields = yaml.safe_load(Template(text).substitute(values))
    fields["models"] = [Model(**model) for model in fields["models"]]
    for command in ("train", "evaluate", "values", "reflections"):
        fields[command] = _options(fields[command])
    settings = fields.get("arm_options", {})
    fields["arm_options"] = {arm: _options(settings[arm]) for arm in settings}
    return Scale(**fields)


def _options(settings: dict[str, Any]) -> list[str]:
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def demo_scale(folder: Path, max_steps: int = 80) -> Scale:
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
        (data / f"{name}.jsonl").write_text(
            "".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8"
        )
    (data / "keywords.txt").write_text(", no\n", encoding="utf-8")
    steps = {"max_steps": max_steps, "eval_steps": max(1, max_steps // 4)}
    places = {"data": data, "tiny_model": TINY_MODEL_DIR, "cores": os.cpu_count() or 1}
    return _read("demo", **steps, **places)


def paper_scale() -> Scale:
    """Return the paper's models and data, on the GPUs of this machine."""
    zero2 = file_of("accelerate_config", "zero2")
    devices = torch.accelerator.device_count() or 8
    return _read("paper", python=sys.executable, zero2=zero2, devices=devices)
