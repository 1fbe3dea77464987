r"""What a BARL training step costs: `BARLTrainer` beside TRL's `GRPOTrainer`.

`OMP_NUM_THREADS=1 python benchmarks/training_step.py [--quick] [--models demo,40m] [--rounds 5]
[--steps 1] [--json FILE]` prints a Markdown table. The trainers train equal models on the same data
with the same settings, in one process run: a rollout batch of one, then one of the other, and so
on, generation and rewards included. All of a round are sampled with the same seed, and the learning
rate is 0, so that they train on the same rollouts. The first round is not counted. A third trainer,
`recorded`, is `BARLTrainer` with `log_beliefs`.

- `demo`: the shipped model on the search task, with the settings of recipes/demo-search.yaml.
- `40m`: a Qwen2 of 39 million random weights. Its completions have full length and no answers: the
  text's checksum stands for the answer, which makes some five hypotheses of eight rollouts.
- `1.5b`, with CUDA: the same with the shape of Qwen2.5-1.5B, in bfloat16.

Each rollout batch is used for one step, so GRPO needs no forward pass for old log-probabilities.
With `--steps 2` it is split over two: then GRPO needs one, and BARL reads them in the pass that
scores. Seconds are those of a whole rollout batch. CPU seconds are this process's.
"""

import argparse
import copy
import json
import time
import warnings
import zlib
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config
from trl import GRPOTrainer, TrlParser

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION as ELICITATION
from barl_trl.rewards import AccuracyReward, accuracy_reward
from barl_trl.steps import delimited_steps
from barl_trl.synthetic.search import STEP_DELIMITER, TINY_MODEL_DIR, search_rows

PACKAGES = ("torch", "transformers", "trl")
ROOT = Path(__file__).parents[1]
TRAINERS = ("barl", "grpo", "recorded")
CUDA = torch.cuda.is_available()
SHAPES = {  # vocabulary, hidden, intermediate, layers, heads; tokens of prompt, completion, step
    "40m": ((32_000, 512, 1408, 8, 8), (100, 256, 64)),
    "1.5b": ((151_936, 1536, 8960, 28, 12), (512, 1024, 128)),
}
GENERATIONS, ANSWERS, TRUTH = 8, 7, "100"  # eight rollouts have about five of seven answers


def demo_task(quick: bool, steps: int, batches: int, output_dir: str) -> dict[str, Any]:
    """Return the trainer's arguments in the search demo; a quick one has smaller batches."""
    argv = f"--config {ROOT}/recipes/demo-search.yaml --output_dir {output_dir} --learning_rate 0"
    argv += f" --report_to none --use_cpu {not CUDA}"
    argv += f" --per_device_train_batch_size {(32 if quick else 128) // steps}"
    argv += f" --steps_per_generation {steps} --gradient_accumulation_steps 1"
    config: Any = BARLConfig
    (args,) = TrlParser([config]).parse_args_and_config(argv.split())
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    rows = search_rows(batches * args.generation_batch_size // args.num_generations, seed=args.seed)
    return {
        "model": AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR),
        "args": args,
        "train_dataset": Dataset.from_list(rows),
        "processing_class": tokenizer,
        # with a memory of its own: one trainer's verdicts are no help to the other
        "reward_funcs": AccuracyReward(copy.copy(accuracy_reward.grader), "accuracy_reward"),
        "step_segmenter": partial(
            delimited_steps, decode=tokenizer.decode, delimiter=STEP_DELIMITER
        ),
    }


def random_task(name: str, steps: int, batches: int, output_dir: str) -> dict[str, Any]:
    """Return the trainer's arguments for random weights, with one prompt in a batch."""
    (vocabulary, hidden, intermediate, layers, heads), (prompt, completion, step) = SHAPES[name]
    text = "".join(row["prompt"] for row in search_rows(prompt * batches, seed=0))
    tokenizer: Any = make_tokenizer(text, vocabulary)
    ids = tokenizer.encode(text)
    prompts = [tokenizer.decode(ids[k * prompt : (k + 1) * prompt]) for k in range(batches)]
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    args = BARLConfig(
        output_dir,
        learning_rate=0,
        report_to="none",
        use_cpu=not CUDA,
        bf16=name == "1.5b",
        gradient_checkpointing=False,  # it would make the step longer, and scoring's share smaller
        per_device_train_batch_size=GENERATIONS // steps,
        steps_per_generation=steps,
        num_generations=GENERATIONS,
        max_completion_length=completion,
        generation_kwargs={"min_new_tokens": completion},
        step_size=step,
    )
    torch.manual_seed(0)
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    with args.device:  # one CPU core is slow to draw 1.5 billion weights
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return {
        "model": model,
        "args": args,
        "train_dataset": Dataset.from_dict({"prompt": prompts, "solution": [TRUTH] * batches}),
        "processing_class": tokenizer,
        "reward_funcs": checksum_reward,
        "answer_extractor": checksum_answer,
    }


def make_tokenizer(text: str, size: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the text's words, and others that only random weights say."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    ends = ["<|endoftext|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=ends, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator([text, *[ELICITATION + "{1}."] * 9], trainer)
    whole = json.loads(core.to_str())
    whole["model"]["vocab"] |= {f"w{n}": n for n in range(core.get_vocab_size(), size)}
    core = Tokenizer.from_str(json.dumps(whole))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token=ends[0], eos_token=ends[1])


def checksum_answer(text: str) -> str:
    """Return one of a few answers, the truth among them."""
    return str(int(TRUTH) + zlib.crc32(text.encode()) % ANSWERS)


def checksum_reward(completions: list[str], **_) -> list[float]:
    """Return whether the answers are the truth."""
    return [float(checksum_answer(text) == TRUTH) for text in completions]


def start(name: str, task: dict[str, Any]) -> tuple[Any, Any]:
    """Return a trainer as `train` would prepare it, and its batches."""
    args, barl_only = task["args"], ("step_segmenter", "answer_extractor")
    args.log_beliefs = name == "recorded"
    args.output_dir += f"/{name}"
    if name == "grpo":
        task = {key: value for key, value in task.items() if key not in barl_only}
        trainer: Any = GRPOTrainer(**task)
    else:
        trainer = BARLTrainer(**task)
    trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(
        trainer.model.train(), trainer.create_optimizer()
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer, iter(trainer.get_train_dataloader())


def step(trainer: Any, batches: Any, seed: int) -> dict[str, float]:
    """Train on a rollout batch as `train` would; return its seconds and what the trainer logs."""
    torch.manual_seed(seed)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(trainer.args.steps_per_generation):
        trainer.training_step(trainer.model_wrapped, next(batches), None)
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.args.max_grad_norm)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
    if CUDA:
        torch.cuda.synchronize()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    logged = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    trainer._metrics["train"].clear()
    return logged | {"seconds": wall, "cpu_seconds": cpu}


def measure(name: str, rounds: int, steps: int, quick: bool, output_dir: str) -> dict[str, Any]:
    """Return the record of a model."""
    make = partial(demo_task, quick) if name == "demo" else partial(random_task, name)
    started = {
        one: start(one, make(steps, batches=rounds + 1, output_dir=output_dir)) for one in TRAINERS
    }
    logs: dict[str, list[dict[str, float]]] = {one: [] for one in TRAINERS}
    for n in range(rounds + 1):
        for one in TRAINERS if n % 2 else TRAINERS[::-1]:  # none is always the first
            logs[one].append(step(*started[one], seed=n))
        _check_equal([started[one][0] for one in TRAINERS])
    barl, counted = started["barl"][0], {one: logs[one][1:] for one in TRAINERS}
    means = {
        key: mean(log[f"barl/{key}"] for log in counted["barl"])
        for key in ("scoring_seconds", "scoring_tokens", "hypotheses_per_prompt")
    }
    record: dict[str, Any] = {
        "model": name,
        "parameters": sum(weights.numel() for weights in barl.model.parameters()),
        "rounds": rounds,
        "steps": steps,
        **means,
        "scoring_share": means["scoring_seconds"] / mean(log["seconds"] for log in counted["barl"]),
        "generated_tokens": mean(log["completions/mean_length"] for log in counted["barl"])
        * barl.args.generation_batch_size,
        **{package: metadata.version(package) for package in PACKAGES},
        "device": barl.args.device.type,
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
    }
    for key in ("seconds", "cpu_seconds"):
        record[key] = {one: [log[key] for log in counted[one]] for one in TRAINERS}
    files = [*Path(output_dir).rglob("rollouts_*.parquet")]
    written = sum(path.stat().st_size for path in files)
    number = len(files) * barl.args.generation_batch_size
    return record | {"bytes_per_rollout": written / max(number, 1)}


def _check_equal(trainers: list[Any]) -> None:
    """Fail unless all trainers were given the same rollouts."""
    first, *others = (trainer._buffered_inputs for trainer in trainers)
    args = trainers[0].args
    for other in others:
        for one, another in zip(first, other, strict=True):
            ids, other_ids = one["completion_ids"], another["completion_ids"]
            # seen on an H200 in bfloat16: they sample other tokens, but as many
            assert ids.shape == other_ids.shape, "rollouts differ in length"
            assert (args.bf16 and CUDA) or torch.equal(ids, other_ids), "rollouts differ"


def row(record: dict[str, Any]) -> str:
    """Return a model's row of the table."""
    cells = [record["model"], f"{record['parameters'] / 1e6:.1f}"]
    for key in ("seconds", "cpu_seconds"):
        times = [record[key][one] for one in TRAINERS]
        cells += [f"{median(values):.2f} ({min(values):.2f})" for values in times[:2]]
        for above, below in ((0, 1), (2, 0)):
            ratios = (of(times[above]) / of(times[below]) for of in (median, min))
            cells.append("{:.2f} ({:.2f})".format(*ratios))
    cells += [f"{record['scoring_seconds']:.2f}", f"{100 * record['scoring_share']:.1f} %"]
    cells += [f"{record[key]:.0f}" for key in ("scoring_tokens", "generated_tokens")]
    cells += [f"{record['hypotheses_per_prompt']:.1f}", f"{record['bytes_per_rollout']:.0f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="A training step: BARLTrainer and GRPOTrainer.")
    parser.add_argument("--models", default="demo,40m" + CUDA * ",1.5b")
    parser.add_argument("--rounds", type=int, default=5, help="rounds behind the first")
    parser.add_argument("--steps", type=int, default=1, help="optimizer steps of a rollout batch")
    parser.add_argument("--quick", action="store_true", help="demo, small batches, 2 rounds")
    parser.add_argument("--json", type=Path, help="file for a list of records")
    args = parser.parse_args()
    names, rounds = (["demo"], 2) if args.quick else (args.models.split(","), args.rounds)
    # TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
    warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)
    transformers.utils.logging.disable_progress_bar()
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES)
    where = f"{'cuda' if CUDA else 'cpu'}, {torch.get_num_threads()} threads"
    print(f"{where}, {versions}; {rounds} rounds: median (minimum).\n")
    of_clock = ("BARL {0}", "GRPO {0}", "BARL : GRPO", "recorded : BARL")
    columns = ["", "M parameters", *(c.format(u) for u in ("s", "CPU s") for c in of_clock)]
    columns += ["scoring s", "of BARL's step", "scored", "generated tokens", "hypotheses"]
    columns += ["bytes recorded per rollout"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    records = []
    for name in names:
        with TemporaryDirectory() as output_dir:
            records.append(measure(name, rounds, args.steps, args.quick, output_dir))
        print(row(records[-1]), flush=True)
        if args.json:
            args.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
