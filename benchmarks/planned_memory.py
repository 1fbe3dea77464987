"""Peaks that `barl plan` foresees beside those of `barl train`, on a CPU or one GPU.

`python benchmarks/planned_memory.py [MODEL ...] [--quick] [--large] [--json FILE]` prints a table.
Each of the demo's model, one of 40 M parameters with random weights, and every MODEL (a folder with
a tokenizer) takes two steps: all parameters or LoRA, with and without gradient checkpointing, with
one and two micro-batches in a step. Completions are as long as they may be. Measured is the most
memory that the process held (`ru_maxrss`), or on a GPU what PyTorch's allocator had given out. A
plan does not count what an allocator keeps in reserve, so glibc's is told to keep nothing, but with
`--reserve`; the CPU seconds say what that costs. With `--large`, for a GPU, one model of random
weights and the shape of Qwen2.5-1.5B stands for the two small ones.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config

from barl_trl.data import PAPER_SYSTEM_PROMPT
from barl_trl.synthetic.search import TINY_MODEL_DIR

ROOT = Path(__file__).parents[1]
DATA = ROOT / "examples" / "search.jsonl"
COMPLETION = 128
SETTINGS = {"dataset_name": DATA, "max_completion_length": COMPLETION, "step_size": 32}
SETTINGS |= {"num_generations": 4, "per_device_train_batch_size": 8, "max_steps": 2}
CUDA = torch.cuda.is_available()
DTYPE = "bfloat16" if CUDA else "float32"
SETTINGS |= {"use_cpu": not CUDA, "bf16": CUDA, "dtype": DTYPE, "report_to": "none"}
LORA = {"use_peft": True, "lora_r": 16, "lora_dropout": 0, "lora_target_modules": "all-linear"}


NAMES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
NAMES += ("num_attention_heads", "num_key_value_heads")
SHAPES = {
    "40 M": (32000, 512, 1536, 8, 8, 4),
    "Qwen2.5-1.5B": (151936, 1536, 8960, 28, 12, 2),
}


def random_model(name: str, folder: Path) -> Path:
    """Save a model of a shape."""
    config = Qwen2Config(**dict(zip(NAMES, SHAPES[name], strict=True)), tie_word_embeddings=True)
    with torch.device("cuda" if CUDA else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, DTYPE))
    folder /= name
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY_MODEL_DIR).save_pretrained(folder)
    return folder


def prompt_settings(model: Path) -> dict[str, object]:
    """Return how prompts are written, and the longest one's tokens."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    problems = [
        json.loads(line)["problem"] for line in DATA.read_text(encoding="utf-8").splitlines()
    ]
    if tokenizer.chat_template is None:
        longest = max(len(tokenizer(f"{problem}\n").input_ids) for problem in problems)
        return {"prompt_template": "{problem}\n", "max_prompt_length": longest}
    texts = [
        tokenizer.apply_chat_template(
            [
                {"role": "system", "content": PAPER_SYSTEM_PROMPT},
                {"role": "user", "content": problem},
            ],
            add_generation_prompt=True,
            return_dict=True,
        )["input_ids"]
        for problem in problems
    ]
    return {"max_prompt_length": max(map(len, texts))}


COMMAND = """import sys, torch
from barl_trl import cli
cli.main(sys.argv[1:])
print("allocated", torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0)
"""


def command(name: str, settings: dict[str, object]) -> list[str]:
    """Return a command with its options."""
    options = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    return [sys.executable, "-c", COMMAND, name, *options]


def planned(settings: dict[str, object]) -> float:
    """Return the peak in `barl plan`, in GiB."""
    done = subprocess.run(command("plan", settings), capture_output=True, text=True, check=True)
    found = re.search(r"at the peak +│ ([\d.]+) GiB", done.stdout)
    assert found, done.stdout
    return float(found[1])


def measured(settings: dict[str, object], folder: Path, reserve: bool) -> tuple[float, float]:
    """Train, and return the most memory that it took, in GiB, and its CPU seconds."""
    more = {"output_dir": folder / "run", "save_strategy": "no", "disable_tqdm": True}
    more["overwrite_output_dir"] = True  # that of the run before
    more["generation_kwargs"] = json.dumps({"min_new_tokens": COMPLETION})
    words = command("train", settings | more)
    written = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    log = (os.POSIX_SPAWN_OPEN, 1, str(folder / "log"), written, 0o600)
    streams = [log, (os.POSIX_SPAWN_DUP2, 1, 2)]
    environment = dict(os.environ)
    if not reserve:
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    process = os.posix_spawn(words[0], words, environment, file_actions=streams)
    _, status, usage = os.wait4(process, 0)
    said = (folder / "log").read_text(encoding="utf-8")
    assert status == 0, said
    allocated = int(said.split("allocated ")[-1].split()[0])
    return (allocated or usage.ru_maxrss * 1024) / 2**30, usage.ru_utime + usage.ru_stime


def main() -> None:
    """Plan, measure, print."""
    parser = argparse.ArgumentParser(description="Planned and measured memory of training.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--quick", action="store_true", help="two runs of the demo's model")
    parser.add_argument("--large", action="store_true", help="the shape of Qwen2.5-1.5B")
    parser.add_argument("--reserve", action="store_true", help="leave glibc its reserve")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the records")
    options = parser.parse_args()
    records = []
    columns = ("model", "trained", "checkpointing", "micro-batches", "planned, GiB", "measured")
    print("|", " | ".join((*columns, "ratio", "CPU s")), "|\n" + "|---" * 8 + "|")
    with tempfile.TemporaryDirectory() as folder:
        if options.quick:
            models = [TINY_MODEL_DIR]
        elif options.large:
            models = [random_model("Qwen2.5-1.5B", Path(folder))]
        else:
            models = [TINY_MODEL_DIR, random_model("40 M", Path(folder))]
        for model in (*models, *options.models):
            prompts = prompt_settings(model)
            ways = [*product([False, True], [False, True], [1, 2])]
            for lora, checkpointing, micro_batches in ways[:2] if options.quick else ways:
                settings = {"model_name_or_path": model, **SETTINGS, **prompts}
                settings |= LORA if lora else {}
                settings["gradient_checkpointing"] = checkpointing
                settings["gradient_accumulation_steps"] = micro_batches
                plan = planned(settings)
                peak, seconds = measured(settings, Path(folder), options.reserve)
                record = {"model": model.name, "lora": lora, "checkpointing": checkpointing}
                record |= {"micro_batches": micro_batches, "planned": plan, "measured": peak}
                record |= {"cpu_seconds": seconds}
                records.append(record)
                print(
                    f"| {model.name} | {'LoRA' if lora else 'all'} | {checkpointing} "
                    f"| {micro_batches} | {plan:.1f} | {peak:.2f} | {plan / peak:.2f} "
                    f"| {seconds:.0f} |",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
