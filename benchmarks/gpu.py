"""One part of what a GPU is to show, a JSON line for each measurement.

`python benchmarks/gpu.py PART --out FILE --seconds N`; `on_gpu.sh` runs all parts in turn. Each
line is on disk before the next measurement starts. N seconds after the start of the process a last
line says where the part stood. The weights are random, but for `bfloat16`: of random weights little
depends on the positions. TINY=1 in the environment does the same on a CPU with a tiny model.

- `machine`: versions; the rates of a matrix product and of a copy, the ceilings of all below.
- `step`: a step of BARLTrainer and of TRL's GRPOTrainer, in turns: 8 prompts x 5 rollouts x 1,024
  tokens of a Qwen2 of 1.5 billion in bfloat16, micro-batches of 4.
- `scoring`: ways to score 5 and 40 rollouts, each beside a plain forward of its own tokens.
- `decode`: transformers' generation: ms and launches for each token, and the bytes it must read.
- `static`, `paged`: a static cache and continuous batching, both with CUDA graphs.
- `bfloat16`: against float32, on the shipped trained models. `prepare`, which needs no GPU, writes
  what this part compares with; else the part begins with it.
"""

import argparse
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import scoring
import torch
import transformers
from bfloat16 import differences, prepared
from datasets import Dataset
from torch.profiler import ProfilerActivity, profile
from transformers import (
    AutoTokenizer,
    ContinuousBatchingConfig,
    GenerationConfig,
    PreTrainedModel,
    StaticCache,
)
from trl import GRPOConfig, GRPOTrainer

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.search import TINY_MODEL_DIR

BEGAN = psutil.Process().create_time()
TINY = bool(os.environ.get("TINY"))
CUDA = torch.cuda.is_available()
DEVICE = scoring.DEVICE
PROMPTS, GENERATIONS, MICRO = (2, 4, 4) if TINY else (8, 5, 4)
PROMPT, NEW, STEP = (24, 32, 8) if TINY else (512, 1024, 128)
SHAPE = scoring.LARGE
if TINY:
    SHAPE = replace(scoring.SMALL, prompt=32, completion=64, vocabulary=600, states=3)
ROLLOUTS = (2, 4) if TINY else (5, 40)
PACKAGES = "torch", "transformers", "trl", "peft", "accelerate", "vllm", "flash-attn", "kernels"


class LateError(Exception):
    """The part's time is over."""


class Part:
    """What the parts share: the command's options, the time that is left, and the lines."""

    def __init__(self, options: argparse.Namespace):
        self.options = options

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.options.seconds - (time.time() - BEGAN)

    def say(self, **record: Any) -> None:
        """Write a line, and see that it is on the disk."""
        at = round(time.time() - BEGAN, 1)
        line = json.dumps({"part": self.options.part, "at_s": at, **record})
        print(line, flush=True)
        with self.options.out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def tried(self, what: str) -> Iterator[None]:
        """Make a line of an error, so that the part goes on."""
        try:
            yield
        except LateError:
            raise
        except Exception as error:  # whatever a machine says that nobody has run this on
            self.say(what=what, error=f"{type(error).__name__}: {str(error)[:300]}")
        gc.collect()
        if CUDA:
            torch.cuda.empty_cache()


def clock() -> float:
    """Return wall seconds, once the GPU is done."""
    if CUDA:
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(call: Callable[[], object]) -> float:
    """Return the wall seconds of a call."""
    started = clock()
    call()
    return clock() - started


def launches(call: Callable[[], object]) -> dict[str, float]:
    """Return what a call launches, and how long the GPU is busy: on a CPU, torch's operations."""
    with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * CUDA) as profiler:
        seconds(call)
    events = profiler.key_averages()
    kernels = [event for event in events if "CUDA" in str(event.device_type)]
    busy = sum(event.self_device_time_total for event in kernels) / 1e3
    operations = sum(event.count for event in events if event.key.startswith("aten::"))
    return {
        "launches": sum(event.count for event in kernels),
        "gpu_busy_ms": round(busy, 2),
        "operations": operations,
    }


# Parts


def machine(part: Part) -> None:
    """Say what this is, and how fast at most."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    gpu = torch.cuda.get_device_name() if CUDA else None
    part.say(gpu=gpu, python=sys.version.split()[0], threads=torch.get_num_threads(), **found)
    size, number = (256, 2**20) if TINY else (8192, 2**31)
    a = torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16)
    x = torch.zeros(number, dtype=torch.uint8, device=DEVICE)
    y = torch.empty_like(x)
    for call in (lambda: a @ a, lambda: y.copy_(x)):
        call()
    product = min(seconds(lambda: a @ a) for _ in range(10))
    copy = min(seconds(lambda: y.copy_(x)) for _ in range(10))
    tflops, rate = 2 * size**3 / product / 1e12, 2 * number / copy / 1e12
    part.say(product_tflops=round(tflops, 2), copy_tb_per_s=round(rate, 3))


def answer_of(text: str) -> str:
    """Return one of seven answers."""
    return str(100 + zlib.crc32(text.encode()) % 7)


def make_trainer(kind: type, spent: dict[str, float], folder: str) -> Any:
    """Return a trainer as `train` would prepare it, which adds its times to `spent`."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)  # its ids are in any vocabulary
    unit = tokenizer.decode(tokenizer.encode("1234567890 ")[:8])
    text = unit * max(1, PROMPT // len(tokenizer.encode(unit)))
    rows = [{"prompt": text + str(n), "solution": "100"} for n in range(12 * PROMPTS)]
    batches = PROMPTS * GENERATIONS // MICRO
    settings: dict[str, Any] = {
        "output_dir": f"{folder}/{kind.__name__}",
        "learning_rate": 1e-9,
        "report_to": "none",
        "use_cpu": not CUDA,
        "bf16": CUDA,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": MICRO,
        "steps_per_generation": batches,
        "gradient_accumulation_steps": batches,
        "num_generations": GENERATIONS,
        "max_completion_length": NEW,
        "generation_kwargs": {"min_new_tokens": NEW},
    }

    def timed(name: str, call: Callable) -> Callable:
        def timing(*args, **kwargs):
            started = clock()
            result = call(*args, **kwargs)
            spent[name] = spent.get(name, 0.0) + clock() - started
            return result

        return timing

    def reward(completions, **_):
        return [float(answer_of(completion) == "100") for completion in completions]

    arguments: Any = scoring.make_model(SHAPE), timed("reward", reward)
    data = {"train_dataset": Dataset.from_list(rows), "processing_class": tokenizer}
    if kind is BARLTrainer:
        data["answer_extractor"] = answer_of
        made: Any = BARLTrainer(*arguments, BARLConfig(**settings, step_size=STEP), **data)
        made._score = timed("score", made._score)
    else:
        made = GRPOTrainer(*arguments, GRPOConfig(**settings), **data)
    made._generate_single_turn = timed("generate", made._generate_single_turn)
    made.model_wrapped, made.optimizer = made.accelerator.prepare(
        made.model.train(), made.create_optimizer()
    )
    made.current_gradient_accumulation_steps = batches
    return made


def whole_step(trainer: Any, batches: Iterator, spent: dict[str, float], new: int) -> dict:
    """Train on one rollout batch of `new` tokens each, and return its phases."""
    trainer.generation_config.max_new_tokens = trainer.generation_config.min_new_tokens = new
    spent.clear()
    if CUDA:
        torch.cuda.reset_peak_memory_stats()
    started = clock()
    for _ in range(trainer.args.steps_per_generation):
        trainer.training_step(trainer.model_wrapped, next(batches), None)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad()
    whole = clock() - started
    logged = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    trainer._metrics["train"].clear()
    phases = {f"{name}_s": round(value, 3) for name, value in spent.items()}
    return phases | {
        "step_s": round(whole, 3),
        "update_s": round(whole - sum(spent.values()), 3),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if CUDA else None,
        "scored_tokens": logged.get("barl/scoring_tokens"),
        "hypotheses": logged.get("barl/hypotheses_per_prompt"),
        "length": logged.get("completions/mean_length"),
    }


def step(part: Part) -> None:
    """Compare steps of BARL and of GRPO, in turns."""
    with TemporaryDirectory() as folder:
        made: dict[str, tuple] = {}
        for name, kind in (("barl", BARLTrainer), ("grpo", GRPOTrainer)):
            with part.tried(name):
                spent: dict[str, float] = {}
                trainer = make_trainer(kind, spent, folder)
                made[name] = trainer, iter(trainer.get_train_dataloader()), spent
                # kernels, allocator and the comparison with re-encoding, without a whole batch
                part.say(what=name, warm_up=whole_step(*made[name], new=min(16, NEW)))
        longest = 0.0
        for n in range(2 if TINY else 9):
            for name in made if n % 2 else reversed(made):
                if part.left() < 1.3 * longest + 5:
                    return
                torch.manual_seed(n)
                with part.tried(name):
                    record = whole_step(*made[name], new=NEW)
                    part.say(what=name, round=n, **record)
                    longest = max(longest, record["step_s"])


@torch.no_grad()
def score(part: Part) -> None:
    """Time ways to score, each beside a plain forward of as many tokens as it feeds."""
    model = scoring.make_model(SHAPE)
    counter, default = scoring.Counter(model), None
    for number in ROLLOUTS:
        group = scoring.make_rollouts(replace(SHAPE, rollouts=number))
        for name in ("default", "default, fused", "cache rows", "released", "re-encoding"):
            is_slow = name in scoring.SLOW
            if part.left() < 8 or (is_slow and number > ROLLOUTS[0]):
                continue
            rollouts = group[:1] if is_slow else group
            call = partial(scoring.WAYS[name], model, rollouts)
            with part.tried(name):
                values = scoring.totals(call())
                default = values if name == "default" else default
                counter.tokens = 0
                call()
                size = counter.tokens // len(rollouts)
                plain = partial(scoring.plain, model, size, len(rollouts), min(size, 333))
                plain()
                times, limits = zip(
                    *((seconds(call), seconds(plain)) for _ in range(1 if is_slow else 5)),
                    strict=True,
                )
                gap = None if default is None else (values - default[: len(values)]).abs().max()
                part.say(
                    way=name,
                    rollouts=len(rollouts),
                    tokens=size * len(rollouts),
                    ms=round(1e3 * min(times), 2),
                    plain_ms=round(1e3 * min(limits), 2),
                    of_plain=round(min(times) / min(limits), 2),
                    gap_nats=None if gap is None else round(gap.item(), 4),
                    peak_mb=round(scoring.peak_bytes(call) / 2**20, 1),
                    **({} if is_slow else launches(call)),
                )


def generating(
    model: PreTrainedModel, length: int, rows: int, cache: StaticCache | None = None, **options: Any
) -> Callable[[int], None]:
    """Return a call that generates a number of tokens after prompts of a length."""
    prompts = torch.randint(20, 500, (rows, length), device=DEVICE)
    options |= {"attention_mask": torch.ones_like(prompts), "do_sample": True, "pad_token_id": 0}

    def generate(new: int) -> None:
        if cache is not None:
            cache.reset()
        fixed = {"max_new_tokens": new, "min_new_tokens": new, "past_key_values": cache}
        with torch.no_grad():
            model.generate(input_ids=prompts, **fixed, **options)  # pyright: ignore[reportCallIssue]

    return generate


def decode(part: Part) -> None:
    """Time generation as TRL calls it: ms and launches for each token of all rows."""
    model, rows, more = scoring.make_model(SHAPE), PROMPTS * GENERATIONS, 8 if TINY else 48
    config = model.config
    per_token = 2 * config.num_hidden_layers * config.num_key_value_heads
    per_token *= config.hidden_size // config.num_attention_heads * model.dtype.itemsize
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    part.say(bytes_of_weights=weights, bytes_of_cache_per_token=per_token, rows=rows)
    for length, number in ((PROMPT, rows), (PROMPT + NEW - 64 * (not TINY), rows), (PROMPT, 8)):
        if part.left() < 10:
            return
        with part.tried(f"context {length}"):
            generate = generating(model, length, number, disable_compile=True)
            generate(4)
            few, many = (seconds(partial(generate, n)) for n in (4, 4 + more))
            part.say(context=length, rows=number, ms_per_token=round(1e3 * (many - few) / more, 2))
    generate = generating(model, PROMPT, rows, disable_compile=True)
    few, many = (launches(partial(generate, n)) for n in (4, 8))
    part.say(what="per token", **{name: round((many[name] - few[name]) / 4, 2) for name in few})


def static(part: Part) -> None:
    """Time generation with a compiled static cache; the first calls compile and record."""
    model, new = scoring.make_model(SHAPE), 8 if TINY else 64
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + NEW)
    generate = generating(model, PROMPT, PROMPTS * GENERATIONS, cache)
    for n in range(3):
        with part.tried("static"):
            part.say(call=n, new=new, seconds=round(seconds(partial(generate, new)), 2))
    few, many = (seconds(partial(generate, n)) for n in (4, 4 + new))
    part.say(ms_per_token=round(1e3 * (many - few) / new, 2))


def paged(part: Part) -> None:
    """Time continuous batching, without and with CUDA graphs."""
    model, rows, new = scoring.make_model(SHAPE), PROMPTS * GENERATIONS, 8 if TINY else 64
    prompts = torch.randint(20, 500, (rows, PROMPT)).tolist()
    for has_graphs in (False, True) if CUDA else (False,):
        settings = ContinuousBatchingConfig(use_cuda_graph=has_graphs, max_memory_percent=0.5)
        settings.num_blocks = rows * (-(-(PROMPT + new) // 256) + 1)
        for n in range(2):
            if part.left() < 15:
                return
            config = GenerationConfig(
                max_new_tokens=new, min_new_tokens=new, do_sample=True, eos_token_id=0
            )
            config.pad_token_id = 0
            with part.tried(f"graphs {has_graphs}"), torch.no_grad():
                started = clock()
                outputs = model.generate_batch(
                    prompts,
                    generation_config=config,
                    continuous_batching_config=settings,
                    progress_bar=False,
                )
                spent, made = clock() - started, outputs.values()
                tokens = sum(len(output.generated_tokens) for output in made)
                part.say(graphs=has_graphs, call=n, seconds=round(spent, 2), tokens=tokens)


def prepare(part: Part) -> None:
    """Compute what needs no GPU."""
    part.say(models=[*prepared(part.options.out.parent / "prepared.pt", 4 if TINY else 100)])


def bfloat16(part: Part) -> None:
    """Compare both dtypes on this device with float32 on a CPU."""
    path = part.options.out.parent / "prepared.pt"
    for name, exact in prepared(path, 4 if TINY else 100).items():
        for dtype in (torch.float32, torch.bfloat16):
            with part.tried(f"{name} {dtype}"):
                part.say(model=name, dtype=str(dtype), **differences(exact, dtype, DEVICE))


PARTS: dict[str, Callable[[Part], None]] = {
    "prepare": prepare,
    "machine": machine,
    "step": step,
    "scoring": score,
    "decode": decode,
    "static": static,
    "paged": paged,
    "bfloat16": bfloat16,
}


def main() -> None:
    """Run a part, with a deadline."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--out", type=Path, required=True, help="file that gets the lines")
    parser.add_argument("--seconds", type=int, default=60)
    part = Part(parser.parse_args())
    warnings.filterwarnings("ignore")
    logging.disable(logging.INFO)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()

    def late(*_):
        raise LateError

    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGINT, late)
    signal.alarm(max(1, int(part.left())))
    faulthandler.dump_traceback_later(max(1, part.left()) + 2)
    part.say(what="imports are done")
    try:
        PARTS[part.options.part](part)
    except LateError:
        part.say(stood_at=traceback.format_exc().strip().splitlines()[-7:-1])
    sys.stdout.flush()
    os._exit(0)  # a thread of continuous batching that hangs must not hold the call


if __name__ == "__main__":
    main()
