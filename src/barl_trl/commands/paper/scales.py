"""What is run at each scale: models, arms, data, options."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, get_args

import torch
import trl

from ...synthetic.search import TINY_MODEL_DIR, search_rows
from ...trainer.barl_fields import Method

NUM_TRAINED, NUM_EVALUATED = 20_000, 200
HELD_OUT_SEED = 11


class Model(NamedTuple):
    """A model that all arms start from."""

    name: str
    path: str
    recipe: str
    arms: tuple[Method, ...]
    billions: float
    """Of parameters."""
    template: str
    """Of the prompts in evaluation: as in training."""


class Scale(NamedTuple):
    """What is run, and with what.

    Args:
        models: The models.
        benchmarks: As in `barl evaluate`, and where needed in `barl train`.
        launcher: What `barl train` is started with.
        train, evaluate, values, reflections: Options of these commands.
        at_once: Runs at a time.
        comparison: How the paper's numbers compare with these.
        notes: What the report says of it.
        not_run: What it says was not run.
        arm_options: Options of `barl train` that an arm has of its own.
    """

    models: list[Model]
    benchmarks: dict[str, str]
    launcher: list[str]
    train: list[str]
    evaluate: list[str]
    values: list[str]
    reflections: list[str]
    at_once: int
    comparison: str
    notes: str
    not_run: list[str]
    arm_options: dict[Method, list[str]] = {}

    def named(self) -> str:
        """Return the benchmarks as commands take them."""
        return ",".join(f"{n}={path}" if path else n for n, path in self.benchmarks.items())


def demo_scale(folder: Path, max_steps: int) -> Scale:
    """Return the search task and its tiny model, and write the problems."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    sets = {
        "train": search_rows(NUM_TRAINED, seed=0),
        "search": search_rows(NUM_EVALUATED, seed=HELD_OUT_SEED, held_out=True),
        "search_9": search_rows(NUM_EVALUATED, seed=HELD_OUT_SEED, held_out=True, num_candidates=9),
    }
    for name, rows in sets.items():
        lines = (
            json.dumps({"problem": row["prompt"].strip(), "answer": row["solution"]})
            for row in rows
        )
        (data / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    (data / "keywords.txt").write_text(", no\n")
    benchmarks = {name: str(data / f"{name}.jsonl") for name in ("search", "search_9")}
    template = "{problem}\n"
    steps = str(max_steps)
    return Scale(
        models=[
            Model("tiny-search", str(TINY_MODEL_DIR), "demo", get_args(Method), 0.0009, template)
        ],
        benchmarks=benchmarks,
        launcher=[],
        train=[
            *["--dataset_name", str(data / "train.jsonl"), "--prompt_template", template],
            *["--step_size", "16", "--max_steps", steps],
            *["--eval_benchmarks", ",".join(f"{n}={p}" for n, p in benchmarks.items())],
            *["--eval_strategy", "steps", "--eval_steps", str(max(1, max_steps // 4))],
        ],
        evaluate=["--max_tokens", "128", "--batch_size", "200"],
        values=["--step_size", "16"],
        reflections=["--keywords", str(data / "keywords.txt")],
        at_once=os.cpu_count() or 1,
        comparison="Not comparable with the paper's numbers.",
        notes=(
            f"{NUM_EVALUATED} search problems that no training has seen, with 7 candidates as in "
            "training (search) and with 9 (search_9). The last checkpoint of each run; nothing was "
            "chosen by these numbers. A reflection is a candidate that is found wrong (`, no`)."
        ),
        not_run=[
            "the paper's models, data and benchmarks: `barl reproduce paper --scale paper`, on a "
            "cluster",
            "Llama-3.2-3B-Instruct (the paper's appendix)",
        ],
    )


def paper_scale() -> Scale:
    """Return the paper's models and data, on the GPUs of this machine."""
    arms: tuple[Method, ...] = ("barl", "progress", "grpo")
    models = [
        # the length-controlled arm is the paper's figure on Markovian optimality
        Model(
            "Qwen2.5-Math-1.5B",
            "Qwen/Qwen2.5-Math-1.5B",
            "qwen2.5-math-1.5b",
            get_args(Method),
            1.5,
            "qwen2.5-math",
        ),
        Model(
            "Qwen2.5-Math-7B",
            "Qwen/Qwen2.5-Math-7B",
            "qwen2.5-math-7b",
            arms,
            7.6,
            "qwen2.5-math",
        ),
        Model(
            "DeepSeek-R1-Distill-Llama-8B",
            "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
            "r1-distill-llama-8b",
            arms,
            8.0,
            "qwen2.5-math",  # with the system prompt that the paper trains it with
        ),
    ]
    names = ("gsm8k", "math", "college_math", "olympiadbench", "aime24", "amc23")
    devices = str(torch.accelerator.device_count() or 8)
    zero2 = str(Path(trl.__file__).parent / "accelerate_configs" / "zero2.yaml")
    accelerate = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", zero2]
    accelerate += ["--num_processes", devices]
    return Scale(
        models=models,
        benchmarks=dict.fromkeys(names, ""),
        launcher=accelerate,
        train=[
            *["--deduplicate", "true", "--eval_benchmarks", ",".join(names)],
            # every ten rollout batches; TRL wants a multiple of the rollouts of a prompt
            *["--eval_strategy", "steps", "--eval_steps", "400"],
            *["--per_device_eval_batch_size", "40"],
            *["--metric_for_best_model", "accuracy", "--load_best_model_at_end", "true"],
        ],
        evaluate=["--backend", "vllm", "--max_tokens", "2048", "--grader", "qwen"],
        # as the recipes have it
        values=["--max_problems", "200", "--max_answer_chars", "20"],
        reflections=["--benchmarks", "gsm8k,math"],
        at_once=1,
        comparison="With the same models, data and benchmarks.",
        notes=(
            "The checkpoint of each run that is best over all benchmarks, as in the paper: it is "
            "chosen by these problems. Training problems that are among the benchmarks' are "
            "counted in the logs of the runs, and trained on."
        ),
        not_run=[
            "length-controlled GRPO over several epochs, as in the paper, which does not say how "
            "many: it has the steps of the others, half an epoch",
            "Llama-3.2-3B-Instruct (the paper's appendix)",
        ],
        # the KL coefficient that the paper found best for its baseline
        arm_options={"grpo": ["--beta", "0.005"], "grpo_length_controlled": ["--beta", "0.005"]},
    )


def refuse_machine() -> None:
    """Refuse the paper's scale where it cannot run.

    Raises:
        ValueError: There is no GPU, or vLLM or DeepSpeed is missing.
    """
    if not torch.accelerator.is_available():
        raise ValueError(
            "--scale must be demo on a machine without GPUs, got paper: --plan prints its commands."
        )
    for package in ("vllm", "deepspeed"):
        if find_spec(package) is None:
            raise ValueError(
                f"--scale must be demo without {package}, got paper: install it with "
                f"`pip install 'barl-trl[{package}]'`."
            )
