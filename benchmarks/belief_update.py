r"""What the task's belief costs in a training step: a long list of hypotheses, many turns.

`OMP_NUM_THREADS=1 python benchmarks/belief_update.py [--quick] [--rounds 9] [--json FILE]` prints a
Markdown table. The task is that of a guessing game: the hypotheses are all codes of four pegs in
six colours, 1,296 of them, given in a column as a closed list. 8 prompts have 8 rollouts each, a
rollout has 8 steps of 24 tokens, and each step brings the pegs of one guess, so that the belief is
updated 8 times for 64 rollouts. The guess is a checksum of the step's text: what is written costs
the same, and the shipped model of 0.2 M parameters cannot play. `observation_likelihood` is NumPy:
it looks up rows of a table of the pegs of all pairs of codes.

One trainer has `credit="bayes"` and `belief="task"`; the other `credit="rloo"`, and neither
hypotheses nor their column. Both train on the same rollouts, one batch after the other, in one
process: see `training_step.py`. The first round is not counted. The parts are timed inside the
steps of both; the table has what the first one's take more than the other's, as shares of the
other's whole step (generation, rewards, update). Seconds are this process's CPU seconds, which
other work on the machine changes little. Then the same calls are repeated with what they got in the
last step, to see the peak of the memory that they take: of tensors, and of Python's and NumPy's
objects.
"""

import argparse
import itertools
import json
import time
import tracemalloc
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from scoring import peak_bytes
from training_step import PACKAGES, start, step
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.inquiry import inquiry_model_dir
from barl_trl.trainer import barl_trainer
from barl_trl.trainer.config import BARLConfig
from barl_trl.trainer.logging.belief_log import BeliefLog
from barl_trl.trainer.rollouts import hypothesis_scorer

PROMPTS, GENERATIONS, STEPS, STEP_TOKENS = 8, 8, 8, 24
METHODS = ("bayes", "rloo")
LOADING = "rows, in accelerate's loader"
PARTS = {
    LOADING: [],
    "what rows list": [(hypothesis_scorer.HypothesisScorer, "_row_hypotheses")],
    "sets of hypotheses": [(hypothesis_scorer, "share_hypotheses")],
    "texts of steps": [(hypothesis_scorer.HypothesisScorer, "_played")],
    "likelihoods, prior": [(hypothesis_scorer, "read_evidence")],
    "posterior": [(barl_trainer, "scored_rollouts")],
    "credit, token weights": [(barl_trainer, "token_weights")],
    "metrics": [(BeliefLog, "log_rollouts")],
}
"""What the belief takes in a step, by the functions that do it."""


def peg_table(codes: np.ndarray) -> np.ndarray:
    """Return the answer to each guess under each code: black pegs, and white ones times 8."""
    black = (codes[:, None] == codes[None]).sum(axis=2)
    counts = np.stack([(codes == colour).sum(axis=1) for colour in range(codes.max() + 1)], axis=1)
    both = np.minimum(counts[:, None], counts[None]).sum(axis=2)
    return (black + 8 * (both - black)).astype(np.uint8)


class Game:
    """All codes, and what the trainer is told of them."""

    def __init__(self, pegs: int, colours: int):
        codes = np.array([*itertools.product(range(colours), repeat=pegs)])
        self.texts = ["".join(map(str, code)) for code in codes]
        self.place = {text: n for n, text in enumerate(self.texts)}
        self.table = peg_table(codes)

    def guess(self, text: str) -> int:
        """Return the place of the code that a text stands for."""
        return zlib.crc32(text.encode()) % len(self.texts)

    def answer(self, text: str) -> str:
        """Return the code that a completion answers."""
        return self.texts[self.guess(text)]

    def reward(self, completions: list[str], solution: list[str], **_) -> list[float]:
        """Return the share of black pegs of each answer, so that rewards differ."""
        pairs = zip(completions, solution, strict=True)
        return [float(self.table[self.guess(c), self.place[s]] % 8) for c, s in pairs]

    def likelihood(self, hypotheses: Any, steps: Any, solution: Any, **_) -> list[np.ndarray]:
        """Return 0 for the codes that a step's pegs allow, -inf for the others."""
        output, columns = [], {}
        with np.errstate(divide="ignore"):
            for texts, of_rollout, secret in zip(hypotheses, steps, solution, strict=True):
                key = secret, len(texts)  # the rollouts of a prompt have the same hypotheses
                if key not in columns:
                    columns[key] = np.array([self.place[text] for text in texts])
                guesses = [self.guess(text) for text in of_rollout]
                seen = self.table[guesses, self.place[secret]]
                under = self.table[guesses][:, columns[key]]
                output.append(np.log((under == seen[:, None]).astype(np.float32)))
        return output


def make_task(method: str, game: Game, batches: int, shape: dict, output_dir: str) -> dict:
    """Return the trainer's arguments."""
    tokenizer = AutoTokenizer.from_pretrained(inquiry_model_dir("number"))
    args = BARLConfig(
        output_dir,
        credit=method,
        learning_rate=0,
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,  # it would make the step longer, and the shares smaller
        per_device_train_batch_size=shape["prompts"] * GENERATIONS,
        num_generations=GENERATIONS,
        max_completion_length=STEPS * shape["step_tokens"],
        generation_kwargs={"min_new_tokens": STEPS * shape["step_tokens"]},
        step_size=shape["step_tokens"],
        **({"belief": "task", "hypotheses_column": "codes"} if method == "bayes" else {}),
    )
    secrets = [game.texts[(7919 * n) % len(game.texts)] for n in range(batches * shape["prompts"])]
    prompts = ["Which code is it?\n"] * len(secrets)
    columns: dict[str, Any] = {"prompt": prompts, "solution": secrets}
    if method == "bayes":
        columns["codes"] = [game.texts] * len(secrets)
    task: dict[str, Any] = {
        "model": AutoModelForCausalLM.from_pretrained(inquiry_model_dir("number")),
        "args": args,
        "train_dataset": Dataset.from_dict(columns),
        "processing_class": tokenizer,
        "reward_funcs": game.reward,
        "answer_extractor": game.answer,
        "answer_equivalence": str.__eq__,
    }
    return task | ({"observation_likelihood": game.likelihood} if method == "bayes" else {})


class Clock:
    """Times functions in place, and keeps what they were called with."""

    def __init__(self):
        self.seconds: Any = defaultdict(float)
        self.calls: dict[str, list[Callable[[], Any]]] = defaultdict(list)

    def watch(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed under a name."""

        def watched(*args, **kwargs):
            begin = time.process_time()
            output = function(*args, **kwargs)
            self.seconds[name] += time.process_time() - begin
            self.calls[name].append(partial(function, *args, **kwargs))
            return output

        return watched

    def taken(self) -> dict[str, float]:
        """Return the seconds of each name, and begin anew."""
        seconds, self.seconds = self.seconds, defaultdict(float)
        return seconds


def measure(game: Game, rounds: int, shape: dict, output_dir: str) -> dict[str, Any]:
    """Return the record."""
    clock = Clock()
    likelihood = game.likelihood
    game.likelihood = clock.watch("observation_likelihood", likelihood)  # a part of another part
    for name, places in PARTS.items():
        for owner, function in places:
            setattr(owner, function, clock.watch(name, getattr(owner, function)))
    started: Any = {}
    for method in METHODS:
        task = make_task(method, game, rounds + 1, shape, f"{output_dir}/{method}")
        trainer, batches = start("barl", task)
        started[method] = trainer, iter(clock.watch(LOADING, partial(next, batches)), None)
    logs: Any = {method: [] for method in METHODS}
    parts: Any = {method: [] for method in METHODS}
    for n in range(rounds + 1):
        for method in METHODS if n % 2 else METHODS[::-1]:  # neither is always the first
            clock.taken()
            clock.calls.clear()
            logs[method].append(step(*started[method], seed=n))
            parts[method].append(clock.taken())
            if method == "bayes":
                calls = {name: list(found) for name, found in clock.calls.items()}
        ids = [started[method][0]._buffered_inputs[0]["completion_ids"] for method in METHODS]
        assert torch.equal(*ids), "rollouts differ"
    counted = {method: logs[method][1:] for method in METHODS}
    pairs = [*zip(parts["bayes"][1:], parts["rloo"][1:], strict=True)]
    rows = {
        name: [ours.get(name, 0.0) - others.get(name, 0.0) for ours, others in pairs]
        for name in (*PARTS, "observation_likelihood")
    }
    whole = [sum(of_step) for of_step in zip(*(rows[name] for name in PARTS), strict=True)]
    of_update = [call for name in [*PARTS][1:-1] for call in calls[name]]
    [last] = counted["bayes"][-1:]
    seconds = {method: [log["cpu_seconds"] for log in counted[method]] for method in METHODS}
    return {
        "shape": shape | {"rollouts": shape["prompts"] * GENERATIONS, "steps": STEPS},
        "hypotheses": last["barl/hypotheses_per_prompt"],
        "tokens": last["completions/mean_length"] * shape["prompts"] * GENERATIONS,
        "parameters": started["bayes"][0].model.num_parameters(),
        "entropy": [last[f"barl/entropy_{when}"] for when in ("before", "after")],
        "cpu_seconds": seconds,
        "parts": rows | {"all": whole},
        "peak_bytes": peaks(of_update),
        "rounds": rounds,
        **{package: metadata.version(package) for package in PACKAGES},
        "threads": torch.get_num_threads(),
        "date": date.today().isoformat(),
    }


def peaks(calls: list[Callable[[], Any]]) -> dict[str, int]:
    """Return the largest memory that calls take, what each returned being kept."""

    def run() -> None:
        kept.extend(call() for call in calls)

    kept: list[Any] = []
    tensors = peak_bytes(run)
    kept.clear()
    tracemalloc.start()
    run()
    objects = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"tensors": tensors, "objects": objects}


def print_table(record: dict[str, Any]) -> None:
    """Print shares of a step."""
    step_seconds = {method: median(record["cpu_seconds"][method]) for method in METHODS}
    print(f"| | CPU ms: median (minimum) | of a step of {step_seconds['rloo']:.2f} s |")
    print("|---|---|---|")
    for name, seconds in record["parts"].items():
        label = {"all": "**the belief, all parts**"}.get(name, name)
        label = f"(in it: `{name}`)" if name == "observation_likelihood" else label
        # the parts and the step of one round: other work slows both down
        shares = [
            part / whole for part, whole in zip(seconds, record["cpu_seconds"]["rloo"], strict=True)
        ]
        times = f"{1e3 * median(seconds):.1f} ({1e3 * min(seconds):.1f})"
        print(f"| {label} | {times} | {100 * median(shares):.2f} % |")
    more = [a - b for a, b in zip(*record["cpu_seconds"].values(), strict=True)]
    share = median(a / b for a, b in zip(more, record["cpu_seconds"]["rloo"], strict=True))
    print(f"| whole step of `bayes` less that of `rloo` | {1e3 * median(more):.0f} | ", end="")
    print(f"{100 * share:.1f} % |")
    of_memory = [record["peak_bytes"][name] / 2**20 for name in ("tensors", "objects")]
    print("\nPeak of the update: {:.1f} MB of tensors, {:.1f} MB of objects.".format(*of_memory))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the task's belief costs in a step.")
    parser.add_argument("--rounds", type=int, default=9, help="rounds behind the first")
    parser.add_argument("--quick", action="store_true", help="27 codes, short steps, 2 rounds")
    parser.add_argument("--json", type=Path, help="file for the record")
    args = parser.parse_args()
    # TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
    warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)
    transformers.utils.logging.disable_progress_bar()
    game = Game(3, 3) if args.quick else Game(4, 6)
    shape = {"prompts": 2, "step_tokens": 4} if args.quick else {}
    shape = {"prompts": PROMPTS, "step_tokens": STEP_TOKENS} | shape
    with TemporaryDirectory() as output_dir:
        record = measure(game, 2 if args.quick else args.rounds, shape, output_dir)
    print_table(record)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
