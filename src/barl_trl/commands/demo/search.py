"""What the demo does: evaluate, train, and evaluate again."""

import time
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from ...evaluation.generation.backends import complete_batch
from ...evaluation.statistics.metrics import accuracy
from ...report.figures import run_curves
from ...report.inspector.site import Site
from ...report.json_files import write_json
from ...report.rollout_records import FOLDER
from ...rewards import accuracy_reward
from ...steps import delimited_steps
from ...synthetic.search import STEP_DELIMITER, TINY_MODEL_DIR, parse_chain, problems, search_rows
from ...trainer import BARLTrainer
from ...trainer.hub.model_card import card_settings
from ..shell.console import progress_bar
from ..train.training_console import print_rows

HELD_OUT_SEED = 7
NUM_GREEDY, SAMPLES_PER_PROBLEM = 400, 2
_SAMPLED: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
_EVALUATION_BATCH = 200


def _evaluate(model, tokenizer, max_new_tokens: int, description: str) -> dict[str, Any]:
    """Measure greedy and sampled (temperature 1) accuracy on the same held-out problems.

    Returns:
        `greedy_accuracy`, `sampled_accuracy` and their `_standard_error`, shares in [0, 1];
        `sampled_tokens` and `sampled_repeats`, means per rollout; `problems`, their number.
    """
    held_out = list(islice(problems(HELD_OUT_SEED, held_out=True), NUM_GREEDY))
    model.eval()
    with progress_bar() as progress:
        task = progress.add_task(description, total=NUM_GREEDY * (1 + SAMPLES_PER_PROBLEM))

        def solve(**options) -> list[tuple[float, int, int]]:
            outcomes = []
            for start in range(0, NUM_GREEDY, _EVALUATION_BATCH):
                batch = held_out[start : start + _EVALUATION_BATCH]
                completions = complete_batch(
                    model,
                    tokenizer([problem.prompt for problem in batch])["input_ids"],
                    max_tokens=max_new_tokens,
                    end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
                    pad_id=tokenizer.pad_token_id,
                    **options,
                )
                for problem, completion in zip(batch, completions, strict=True):
                    tried, answer = parse_chain(tokenizer.decode(completion.token_ids))
                    reward, repeats = float(answer == problem.solution), len(tried) - len({*tried})
                    outcomes.append((reward, len(completion.token_ids), repeats))
                progress.advance(task, len(batch))
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


def run(method: str, args) -> dict[str, Any]:
    """Evaluate, train, evaluate again, and write everything to the output folder.

    Args:
        method: Name of the credit, as `barl train --credit` takes it.
        args: A [`BARLConfig`].

    Returns:
        The contents of `summary.json`.
    """
    started = time.perf_counter()
    output_dir = Path(args.output_dir)
    output_dir.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_DIR)
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=STEP_DELIMITER)
    prompts_per_batch = args.generation_batch_size // args.num_generations
    updates_per_batch = args.steps_per_generation * args.num_iterations
    num_prompts = prompts_per_batch * -(-args.max_steps // updates_per_batch)
    args.credit = method
    trainer = BARLTrainer(
        model=model,
        reward_funcs=accuracy_reward,
        args=args,
        train_dataset=Dataset.from_list(search_rows(num_prompts, seed=args.seed)),
        processing_class=tokenizer,
        step_segmenter=segmenter,
    )
    print_rows(trainer)
    measure = partial(_evaluate, trainer.model, tokenizer, args.max_completion_length)
    before = measure("evaluating the shipped model")
    trainer.train()
    after = measure("evaluating the trained model")
    trainer.save_model(args.output_dir)
    trainer.state.save_to_json(str(output_dir / "trainer_state.json"))
    write_json(output_dir / "curves.json", run_curves.summarize({method: [output_dir]}))
    run_curves.draw(output_dir / "curves.json", output_dir / "training.png")
    page = output_dir / "inspect"
    is_recorded = args.log_beliefs
    if is_recorded:
        Site([output_dir / FOLDER], [output_dir.resolve().name], page).update()
    summary = {
        "method": method,
        "settings": card_settings(args) | {"step_delimiter": STEP_DELIMITER},
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
