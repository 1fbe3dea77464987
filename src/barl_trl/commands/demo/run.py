"""What the demo does: evaluate, train, evaluate again, and show beliefs."""

import time
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import transformers
from datasets import Dataset
from rich.progress import Progress
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.trainer_callback import PrinterCallback

from ...evaluation.beliefs.response_values import response_scorer, response_values
from ...evaluation.generation.backends import complete_batch
from ...evaluation.responses import Response
from ...evaluation.statistics.metrics import accuracy
from ...hypotheses import extract_answer
from ...report.figures import drawing
from ...report.inspector.site import Site
from ...report.json_files import write_json
from ...report.rollout_records import FOLDER
from ...rewards import accuracy_reward
from ...steps import delimited_steps
from ...synthetic.search import STEP_DELIMITER, TINY_MODEL_DIR, parse_chain, problems, search_rows
from ...trainer import BARLTrainer, make_trainer
from ...trainer.hub.model_card import card_settings
from ..shell.console import progress_bar

HELD_OUT_SEED = 7
NUM_GREEDY, SAMPLES_PER_PROBLEM = 400, 2
_NUM_BROWSED, _NUM_PICTURED = 16, 3
_SAMPLED: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
_EVALUATION_BATCH = 200


class _TrainingLine(TrainerCallback):
    """Moves a progress bar with the optimizer steps, and tells the values of the last log."""

    def __init__(self, progress: Progress, total: int):
        self.progress, self.task = progress, progress.add_task("training", total=total)

    def on_step_end(self, args, state, control, **kwargs):
        self.progress.update(self.task, completed=state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "reward" in logs:
            text = f"training, reward {logs['reward']:.2f}"
            if "barl/truth_mass" in logs:
                text += f", truth mass {logs['barl/truth_mass']:.2f}"
            self.progress.update(self.task, description=text)


def generate(model, tokenizer, prompts, max_new_tokens: int, **options) -> list[list[int]]:
    """Generate one completion for each prompt: its token ids without the end-of-turn token."""
    completions = complete_batch(
        model,
        tokenizer(prompts)["input_ids"],
        max_tokens=max_new_tokens,
        end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
        pad_id=tokenizer.pad_token_id,
        **options,
    )
    return [completion.token_ids for completion in completions]


def evaluate(
    model, tokenizer, max_new_tokens: int, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Measure greedy and sampled (temperature 1) accuracy on the same held-out problems.

    Returns:
        `greedy_accuracy`, `sampled_accuracy` and their `_standard_error`, shares in [0, 1];
        `sampled_tokens` and `sampled_repeats`, means per rollout; `problems`, their number.
    """
    held_out = list(islice(problems(HELD_OUT_SEED, held_out=True), NUM_GREEDY))
    model.eval()

    def solve(**options) -> list[tuple[float, int, int]]:
        outcomes = []
        for start in range(0, NUM_GREEDY, _EVALUATION_BATCH):
            batch = held_out[start : start + _EVALUATION_BATCH]
            prompts = [problem.prompt for problem in batch]
            chains = generate(model, tokenizer, prompts, max_new_tokens, **options)
            for problem, chain in zip(batch, chains, strict=True):
                tried, answer = parse_chain(tokenizer.decode(chain))
                reward = float(answer == problem.solution)
                outcomes.append((reward, len(chain), len(tried) - len(set(tried))))
            advance(len(batch))
        return outcomes

    greedy = accuracy([[reward] for reward, _, _ in solve(do_sample=False)])
    torch.manual_seed(HELD_OUT_SEED)
    runs = [solve(**_SAMPLED) for _ in range(SAMPLES_PER_PROBLEM)]
    sampled = accuracy([[reward for reward, _, _ in row] for row in zip(*runs, strict=True)])
    return {
        "greedy_accuracy": greedy[0],
        "greedy_standard_error": greedy[1],
        "sampled_accuracy": sampled[0],
        "sampled_standard_error": sampled[1],
        "sampled_tokens": fmean(length for run in runs for _, length, _ in run),
        "sampled_repeats": fmean(repeats for run in runs for _, _, repeats in run),
        "problems": NUM_GREEDY,
    }


def _belief_records(model, tokenizer, segmenter, args) -> list[dict[str, Any]]:
    """Score rollouts of a held-out problem at their states, for `drawing.beliefs`.

    The problem is the one, of a few, whose rollouts disagree most. If there is a wrong rollout, it
    comes first.
    """
    candidates = list(islice(problems(HELD_OUT_SEED + 1, held_out=True), _NUM_BROWSED))
    torch.manual_seed(args.seed)
    size = args.num_generations
    prompts = [problem.prompt for problem in candidates for _ in range(size)]
    chains = generate(model, tokenizer, prompts, args.max_completion_length, **_SAMPLED)
    texts = [tokenizer.decode(chain) for chain in chains]
    groups = [texts[k : k + size] for k in range(0, len(texts), size)]
    chosen = max(range(_NUM_BROWSED), key=lambda k: len(set(map(extract_answer, groups[k]))))
    problem, group = candidates[chosen], groups[chosen]
    token_ids = chains[chosen * size : (chosen + 1) * size]
    rewards = accuracy_reward(group, [problem.solution] * size)
    responses = [
        Response(
            benchmark="search",
            problem_id=chosen,
            sample=sample,
            problem=problem.prompt,
            solution=problem.solution,
            prompt=problem.prompt,
            response=text,
            tokens=len(chain),
            truncated=len(chain) == args.max_completion_length,
            answer=extract_answer(text),
            reward=float(reward or 0.0),
            reason="",
        )
        for sample, (text, chain, reward) in enumerate(zip(group, token_ids, rewards, strict=True))
    ]
    scorer = response_scorer(
        tokenizer, args, grader=accuracy_reward.grader, step_segmenter=segmenter
    )
    records = list(response_values(model, scorer, responses))
    records.sort(key=lambda record: (record["reward"] == 1, -len(record["steps"])))
    return [*records[:1], *records[1:][1 - _NUM_PICTURED :]]


def run_seeds(method: str, args, number: int) -> list[dict[str, Any]]:
    """Run the demo with `number` seeds, from that of `args` on, and return their summaries.

    With one seed everything goes into the output folder, with several into `seed-N` in it.
    """
    if number == 1:
        return [run(method, args)]
    summaries = []
    for seed in range(args.seed, args.seed + number):
        seeded = copy(args)
        seeded.seed, seeded.output_dir = seed, str(Path(args.output_dir) / f"seed-{seed}")
        summaries.append(run(method, seeded))
    return summaries


def run(method: str, args) -> dict[str, Any]:
    """Evaluate, train, evaluate again, and write everything to the output folder.

    Args:
        method: Name of the credit, as `barl train --method` takes it.
        args: A [`BARLConfig`].

    Returns:
        The contents of `summary.json`.
    """
    started = time.perf_counter()
    transformers.utils.logging.disable_progress_bar()  # the demo has its own
    output_dir = Path(args.output_dir)
    output_dir.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=STEP_DELIMITER)
    prompts_per_batch = args.generation_batch_size // args.num_generations
    updates_per_batch = args.steps_per_generation * args.num_iterations
    num_prompts = prompts_per_batch * -(-args.max_steps // updates_per_batch)
    with progress_bar(width=32) as progress:

        def measure(description: str) -> dict[str, Any]:
            total = NUM_GREEDY * (1 + SAMPLES_PER_PROBLEM)
            task = progress.add_task(description, total=total)
            return evaluate(
                trainer.model,
                tokenizer,
                args.max_completion_length,
                lambda count: progress.advance(task, count),
            )

        trainer = make_trainer(
            method,
            model=model,
            reward_funcs=accuracy_reward,
            args=args,
            train_dataset=Dataset.from_list(search_rows(num_prompts, seed=args.seed)),
            processing_class=tokenizer,
            step_segmenter=segmenter,
        )
        trainer.remove_callback(PrinterCallback)
        before = measure("evaluating the shipped model")
        trainer.add_callback(_TrainingLine(progress, args.max_steps))
        trainer.train()
        after = measure("evaluating the trained model")
    trainer.save_model(args.output_dir)
    trainer.state.save_to_json(str(output_dir / "trainer_state.json"))
    drawing.training_curves(output_dir / "trainer_state.json", output_dir / "training.png")
    records = _belief_records(trainer.model, tokenizer, segmenter, args)
    write_json(output_dir / "beliefs.json", records)
    drawing.beliefs(output_dir / "beliefs.json", output_dir / "beliefs.png")
    page = output_dir / "inspect"
    is_recorded = isinstance(trainer, BARLTrainer) and args.log_beliefs
    if is_recorded:
        Site([output_dir / FOLDER], [output_dir.resolve().name], page).update()
    used: Any = trainer.args  # a method may change some of `args`
    summary = {
        "method": method,
        "settings": card_settings(used) | {"step_delimiter": STEP_DELIMITER},
        "grader": accuracy_reward.grader.label,
        "seeds": {"training": args.seed, "held_out": HELD_OUT_SEED},
        "held_out_problems": NUM_GREEDY,
        "page": str(page / "index.html") if is_recorded else None,
        "seconds": round(time.perf_counter() - started, 1),
        "before": before,
        "after": after,
    }
    write_json(output_dir / "summary.json", summary)
    return summary
