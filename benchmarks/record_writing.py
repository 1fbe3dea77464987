r"""What `log_beliefs` costs: a training step with it and without, and the writing of a large batch.

`OMP_NUM_THREADS=1 python benchmarks/record_writing.py [--quick] [--rounds 8] [--prompts 1024]
[--json FILE]` prints two Markdown tables.

- `step`: the demo's model, task and settings, in one process run: a rollout batch with records, one
  without, and so on. Both of a round are sampled with the same seed, and the learning rate is 0, so
  that they train on the same rollouts. The first round is not counted. A step is a whole rollout
  batch, generation and rewards included; recording is what of it `RolloutRecorder.record` takes.
- `batch`: rollouts of the paper's shape, made up: so many prompts x 5 rollouts of 768 to 1024
  tokens, 128 to a step, 6 hypotheses, with old log-probabilities and importance ratios. `columns`
  is what each process does for its own rollouts (here one does it for all), `sent` what it then
  hands to the main process, `file` what that writes. Ids are spread over a vocabulary as words are
  (Zipf), and every hundredth is half a character. In the first batch each id is decoded. Memory is
  the peak of the process above what it held before.

CPU seconds are this process's. `--quick`: small batches, 2 rounds.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import transformers
from barl_trl.trainer.logging.rollout_recorder import _written
from training_step import demo_task, make_tokenizer, start, step

from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.hypotheses import HypothesisSet
from barl_trl.plausibility.answer_logps import AnswerLogLikelihoods
from barl_trl.trainer.recorder import TokenTexts, prompt_columns, rollout_table
from barl_trl.trainer.records import file_name, write_records
from barl_trl.trainer.rollouts.hypothesis_scorer import Generated, Scored

WAYS = ("with", "without")
GENERATIONS, LENGTHS, STEP, HYPOTHESES = 5, (768, 1024), 128, 6
VOCABULARY, WORDS = 32_000, 600
"""Ids, and how many of them are bytes and special tokens."""


def measured_step(rounds: int, quick: bool, output_dir: str) -> dict[str, Any]:
    """Return the times of the demo's steps, with records and without."""
    started, logs = {}, {way: [] for way in WAYS}
    for way in WAYS:
        task = demo_task(quick, steps=1, batches=rounds + 1, output_dir=f"{output_dir}/{way}")
        task["args"].log_beliefs = way == "with"
        started[way] = start("barl", task)
    recording = timed(started["with"][0]._recorder, "record")
    for n in range(rounds + 1):
        for way in WAYS if n % 2 else WAYS[::-1]:  # neither is always the first
            trainer, batches = started[way]
            trainer.state.global_step = n
            logs[way].append(step(trainer, batches, seed=n))
        ids = [started[way][0]._buffered_inputs[0]["completion_ids"] for way in WAYS]
        assert torch.equal(*ids), "rollouts differ"
    times = {way: [log["cpu_seconds"] for log in logs[way][1:]] for way in WAYS}
    files = [*Path(output_dir, "with", "beliefs").iterdir()]
    assert len(files) == rounds + 1
    number = started["with"][0].args.generation_batch_size
    return {
        "rollouts": number,
        "cpu_seconds": times,
        "recording_cpu_seconds": recording[1:],
        "recording_share": median(recording[1:]) / median(times["with"]),
        "ratio_of_medians": median(times["with"]) / median(times["without"]),
        "bytes_per_rollout": sum(path.stat().st_size for path in files) / len(files) / number,
    }


def timed(owner: Any, name: str) -> list[float]:
    """Return a list to which the CPU seconds of each call of a method will be appended."""
    method, seconds = getattr(owner, name), []

    def call(*args: Any) -> None:
        began = time.process_time()
        method(*args)
        seconds.append(time.process_time() - began)

    setattr(owner, name, call)
    return seconds


def made_up(prompts: int, halves: list[int]) -> Callable[[TokenTexts], pa.Table]:
    """Return what makes the table of made-up rollouts; `halves` are a character's tokens."""
    draw, number = np.random.default_rng(0), prompts * GENERATIONS
    lengths = draw.integers(LENGTHS[0], LENGTHS[1] + 1, number)
    ids = [WORDS + draw.zipf(1.3, n) % (VOCABULARY - WORDS) for n in lengths]
    for row in ids:
        row[50::200], row[51::200] = halves
    ids = [row.tolist() for row in ids]
    ends = [[*range(STEP, n, STEP), n] for n in lengths.tolist()]
    most, states = int(lengths.max()), max(map(len, ends)) + 1
    own = torch.tensor([len(row) + 1 for row in ends])
    state_mask = torch.arange(states) < own[:, None]
    hypothesis_mask = torch.ones(number, HYPOTHESES, dtype=torch.bool)
    logps = -torch.rand(number, states, HYPOTHESES)
    answers = tuple(map(str, range(HYPOTHESES)))
    members = draw.integers(0, HYPOTHESES, number).tolist()
    group = HypothesisSet(answers, tuple(members[:GENERATIONS]), {})
    likelihoods = AnswerLogLikelihoods(
        logps, state_mask, hypothesis_mask, torch.zeros(number, 0), 0, 1, 0.0, [2000] * number
    )
    sets = [group] * number
    found = [answers[member] for member in members]
    is_cut_off = (lengths == most).tolist()
    scored = Scored(found, sets[:prompts], sets, ends, [], is_cut_off, likelihoods)
    outcomes = (torch.rand(number) < 0.5).float()
    rollouts = ScoredRollouts(
        outcomes,
        torch.ones(number, dtype=torch.bool),
        lengths == most,
        torch.arange(number) // GENERATIONS,
        state_mask,
        logps,
        hypothesis_mask,
        logps.softmax(dim=2) * state_mask[..., None],
        members,
    )
    values = torch.randn(number, states - 1)
    weights = values.repeat_interleave(STEP, dim=1)[:, :most]
    old, ratios = -torch.rand(number, most), torch.exp(0.02 * torch.randn(number, most))
    texts = [f"Problem {n}: {' '.join(map(str, range(100)))}" for n in range(prompts)]
    asked = [text for text in texts for _ in range(GENERATIONS)]

    def table(texts: TokenTexts) -> pa.Table:
        return rollout_table(
            texts,
            Generated([[0]] * number, ids, asked),
            scored,
            rollouts,
            values=values,
            of_tokens={"token_logps": old, "importance_ratios": ratios, "token_weights": weights},
            step=[0] * number,
            group=[n // GENERATIONS for n in range(number)],
            rollout=[*range(number)],
            **prompt_columns(asked, [[0]] * number, None),
            solution=["42"] * number,
            rewards=outcomes[:, None].tolist(),
            outcome=outcomes.tolist(),
            advantage=outcomes.tolist(),
            reason=["equal numbers"] * number,
            is_cut_off=is_cut_off,
        )

    return table


@contextmanager
def peak_memory(found: dict[str, float], name: str) -> Iterator[None]:
    """Note the peak of this process's memory above what it holds now, in bytes, and its seconds."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    before, wall, cpu = resident("VmRSS"), time.perf_counter(), time.process_time()
    yield
    found[f"{name} wall s"] = time.perf_counter() - wall
    found[f"{name} CPU s"] = time.process_time() - cpu
    found[f"{name} peak"] = resident("VmHWM") - before


def resident(name: str) -> int:
    """Return an entry of this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    [line] = [line for line in lines if line.startswith(f"{name}:")]
    return 1024 * int(line.split()[1])


def measured_batch(prompts: int, output_dir: str) -> dict[str, Any]:
    """Return what the batch of made-up rollouts costs."""
    tokenizer, found = make_tokenizer("Problem 1: " * 50, VOCABULARY), dict[str, Any]()
    table, texts = made_up(prompts, tokenizer.encode("\u00e9")), TokenTexts(tokenizer)
    with peak_memory(found, "columns of the first batch"):
        table(texts)
    with peak_memory(found, "columns"):
        records = table(texts)
    with peak_memory(found, "sent"):
        sent = _written(records)
    path = Path(output_dir, file_name(0))
    with peak_memory(found, "file"):
        write_records(path, [records], {})
    number = len(records)
    found |= {"rollouts": number, "sent bytes": len(sent) / number}
    return found | {"bytes_per_rollout": path.stat().st_size / number}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Rollout records: what they cost.")
    parser.add_argument("--rounds", type=int, default=8, help="rounds behind the first")
    parser.add_argument("--prompts", type=int, default=1024, help="prompts of the batch")
    parser.add_argument("--quick", action="store_true", help="small batches, 2 rounds")
    parser.add_argument("--json", type=Path, help="file for the two records")
    args = parser.parse_args()
    rounds, prompts = (2, 32) if args.quick else (args.rounds, args.prompts)
    transformers.utils.logging.disable_progress_bar()
    with TemporaryDirectory() as output_dir:
        batch = measured_batch(prompts, output_dir)
        demo = measured_step(rounds, args.quick, output_dir)
    seconds = [f"{median(demo['cpu_seconds'][way]):.2f}" for way in WAYS]
    print("| | rollouts | step with, CPU s | without | with : without | recording, CPU s", end=" ")
    print("| of the step | bytes per rollout |")
    print("|---" * 8 + "|")
    cells = ["demo", demo["rollouts"], *seconds, f"{demo['ratio_of_medians']:.3f}"]
    cells += [f"{median(demo['recording_cpu_seconds']):.4f}"]
    cells += [f"{100 * demo['recording_share']:.2f} %", f"{demo['bytes_per_rollout']:.0f}"]
    print(f"| {' | '.join(map(str, cells))} |\n")
    print("| | CPU s | wall s | peak, MB | bytes per rollout |")
    print("|---" * 5 + "|")
    sizes = {"sent": batch["sent bytes"], "file": batch["bytes_per_rollout"]}
    for name in ("columns of the first batch", "columns", "sent", "file"):
        numbers = [f"{batch[f'{name} {unit} s']:.2f}" for unit in ("CPU", "wall")]
        numbers += [f"{batch[f'{name} peak'] / 1e6:.0f}"]
        numbers += [f"{sizes[name]:.0f}" if name in sizes else ""]
        print(f"| {name} | {' | '.join(numbers)} |")
    print(f"\n{batch['rollouts']} rollouts.")
    if args.json:
        args.json.write_text(
            json.dumps({"step": demo, "batch": batch}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
