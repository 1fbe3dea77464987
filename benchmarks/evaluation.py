r"""What completions cost: `barl evaluate`'s generation beside transformers' own two ways.

`OMP_NUM_THREADS=1 python benchmarks/evaluation.py [--quick] [--models demo,40m] [--rounds 3]
[--json FILE]` prints a Markdown table. All ways get the same model, prompts, ends and limit, decode
greedily, and take turns in one process run; the least CPU seconds of the rounds count. A row says
how many of the first 8 completions are equal to those of `generate` on each prompt alone.

- `barl_trl`: `TransformersBackend`, as `barl evaluate` has it: sorted batches that shrink.
- `generate, sorted`: `model.generate` over batches of prompts of like length.
- `generate_batch`: transformers' continuous batching. On a CPU its cache is sized by the free
  memory, and attention goes over all of it: with the default one it is a hundred times slower. It
  gets the best of several sizes of pages, cache and batch, searched in this run.

Models:

- `demo`: the shipped model on the search task, which ends its turns by itself.
- `40m`: a Qwen2 of 39 million random weights, prompts of 20 to 120 tokens. Every 61st token ends a
  turn, so that lengths differ.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from importlib import metadata
from itertools import islice
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    ContinuousBatchingConfig,
    GenerationConfig,
    Qwen2Config,
)

from barl_trl.evaluation.generation import CompletionTokens, Decoding, Job, TransformersBackend
from barl_trl.synthetic.search import TINY_MODEL_DIR, problems

PACKAGES = ("torch", "transformers")
BATCH, ALONE = 64, 8
PAGES = (16, 128)
"""Sizes of pages that continuous batching may choose from."""


@dataclass(frozen=True)
class Task:
    """What all ways have to do."""

    path: str
    prompts: list[list[int]]
    end_ids: list[int]
    max_tokens: int

    def backend(self) -> TransformersBackend:
        """Load the model as `barl evaluate` does."""
        decoding = Decoding(self.end_ids, self.max_tokens, batch_size=BATCH, temperature=0.0)
        return TransformersBackend(self.path, decoding, dtype=torch.float32)


def demo_task(quick: bool, folder: str) -> Task:
    """Return the shipped model and its held-out problems."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    texts = [p.prompt for p in islice(problems(7, held_out=True), 24 if quick else 128)]
    return Task(str(TINY_MODEL_DIR), tokenizer(texts)["input_ids"], [tokenizer.eos_token_id], 128)


def random_task(quick: bool, folder: str) -> Task:
    """Return a model of random weights, and prompts of random tokens."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=32_000,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        initializer_range=0.2,  # wide enough that greedy decoding does not repeat a token for ever
    )
    lengths = torch.randint(20, 121, (8 if quick else 64,)).tolist()
    prompts = [torch.randint(0, 32_000, (length,)).tolist() for length in lengths]
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return Task(folder, prompts, list(range(0, 32_000, 61)), 8 if quick else 96)


TASKS = {"demo": demo_task, "40m": random_task}


def ours(backend: TransformersBackend, task: Task) -> list[list[int]]:
    """Complete as `barl evaluate` does."""
    jobs = [Job((i, 0), prompt, 0) for i, prompt in enumerate(task.prompts)]
    made = {job.key[0]: c.token_ids for batch in backend.complete(jobs, ()) for job, c in batch}
    return [made[i] for i in range(len(jobs))]


def generate_sorted(model: Any, task: Task, batch: int = BATCH) -> list[list[int]]:
    """Complete by `generate`, in batches of prompts of like length."""
    order = sorted(range(len(task.prompts)), key=lambda i: -len(task.prompts[i]))
    made = {}
    for start in range(0, len(order), batch):
        places = order[start : start + batch]
        rows = [task.prompts[i] for i in places]
        width, pad = max(map(len, rows)), task.end_ids[0]
        ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        with torch.no_grad():
            output = model.generate(ids, attention_mask=mask, generation_config=greedy(task))
        for i, row in zip(places, output[:, width:].tolist(), strict=True):
            made[i] = CompletionTokens.of(row, task.end_ids).token_ids
    return [made[i] for i in range(len(order))]


def greedy(task: Task) -> GenerationConfig:
    """Return the settings of `generate`."""
    return GenerationConfig(
        max_new_tokens=task.max_tokens,
        do_sample=False,
        eos_token_id=task.end_ids,
        pad_token_id=task.end_ids[0],
    )


def continuous(model: Any, task: Task, page: int, tokens: int) -> list[list[int]]:
    """Complete by transformers' continuous batching.

    Args:
        model: What completes.
        task: What to complete.
        page: Tokens of a page of the cache.
        tokens: Tokens of a batch.
    """
    longest = max(map(len, task.prompts)) + task.max_tokens
    config = ContinuousBatchingConfig(
        page_size=page,
        num_blocks=BATCH * -(-longest // page),  # room for a whole batch, and no more
        max_batch_tokens=tokens,
        max_requests_per_batch=BATCH,
    )
    found = model.generate_batch(
        task.prompts, generation_config=greedy(task), continuous_batching_config=config
    )
    outputs = [found[name] for name in sorted(found, key=lambda name: int(name.split("_")[-1]))]
    return [CompletionTokens.of(o.generated_tokens, task.end_ids).token_ids for o in outputs]


def timed(way: Callable[[], list[list[int]]]) -> tuple[float, float, list[list[int]]]:
    """Return CPU seconds, wall seconds and what a way made."""
    start, before = time.perf_counter(), cpu_seconds()
    made = way()
    return cpu_seconds() - before, time.perf_counter() - start, made


def cpu_seconds() -> float:
    """Return the user and system time of this process."""
    times = psutil.Process().cpu_times()
    return times.user + times.system


def best_sizes(model: Any, task: Task) -> tuple[int, int]:
    """Return the page and batch with which continuous batching is fastest on a part of the task."""
    part = Task(task.path, task.prompts[:BATCH], task.end_ids, min(task.max_tokens, 16))
    sizes = [(page, tokens) for page in PAGES for tokens in (BATCH, 4 * BATCH)]
    costs = {size: timed(lambda size=size: continuous(model, part, *size))[0] for size in sizes}
    return min(sizes, key=costs.__getitem__)


def measure(name: str, quick: bool, rounds: int) -> list[dict[str, Any]]:
    """Return a record for each way."""
    with TemporaryDirectory() as folder:
        task = TASKS[name](quick, folder)
        backend = task.backend()
    model = backend.model
    page, tokens = best_sizes(model, task)
    ways: dict[str, Callable[[], list[list[int]]]] = {
        "barl_trl": lambda: ours(backend, task),
        "generate, sorted": lambda: generate_sorted(model, task),
        f"generate_batch, pages of {page}, {tokens} tokens": lambda: continuous(
            model, task, page, tokens
        ),
    }
    first = replace(task, prompts=task.prompts[:ALONE])
    alone = generate_sorted(model, first, 1)
    runs = {way: [] for way in ways}
    for _ in range(rounds):
        for way, complete in ways.items():
            runs[way].append(timed(complete))
    made = runs["generate, sorted"][0][2]
    count = sum(map(len, made))
    records = []
    for way, found in runs.items():
        cpu, wall = min(run[0] for run in found), min(run[1] for run in found)
        equal = sum(a == b for a, b in zip(found[0][2], alone, strict=False))
        records.append(
            {
                "model": name,
                "way": way,
                "cpu_s": cpu,
                "wall_s": wall,
                "tokens_per_cpu_s": count / cpu,
                "equal": equal,
                "compared": len(alone),
                "completions": len(made),
                "mean_tokens": mean(map(len, made)),
                "prompt_tokens": [min(map(len, task.prompts)), max(map(len, task.prompts))],
                "max_tokens": task.max_tokens,
            }
        )
    return records


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the records as a Markdown table."""
    lines = [
        "| model | way | CPU s | wall s | tokens per CPU s | : barl_trl | as each alone |",
        "|---|---|---|---|---|---|---|",
    ]
    for record in records:
        of_model = [r for r in records if r["model"] == record["model"]]
        ratio = record["cpu_s"] / of_model[0]["cpu_s"]
        lines.append(
            f"| {record['model']} | {record['way']} | {record['cpu_s']:.2f} "
            f"| {record['wall_s']:.2f} | {record['tokens_per_cpu_s']:.0f} | {ratio:.2f} "
            f"| {record['equal']} of {record['compared']} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="What completions cost.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--models", default="demo,40m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    records = []
    for name in args.models.split(","):
        records += measure(name, args.quick, 1 if args.quick else args.rounds)
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES)
    threads = torch.get_num_threads()
    print(f"{date.today()}, {threads} thread, float32, batches of {BATCH}; {versions}.")
    for name in args.models.split(","):
        first = next(record for record in records if record["model"] == name)
        low, high = first["prompt_tokens"]
        print(
            f"{name}: {first['completions']} prompts of {low} to {high} tokens, completions of "
            f"{first['mean_tokens']:.0f} tokens on average, at most {first['max_tokens']}."
        )
    print(f"\n{table(records)}\n")
    if args.json:
        args.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
