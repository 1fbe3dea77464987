"""The data sets of a training run: problems to train on, to evaluate on, and benchmarks."""

import logging
from typing import Any

from datasets import Dataset

from ..data import DataReport, Selection, load_problems
from ..data.loading import MOST_PARSED, NO_SELECTION, make_prompt
from ..evaluation.benchmarks import load_benchmarks
from ..trainer import BARLConfig
from .train_arguments import BARLScriptArguments

logger = logging.getLogger(__name__)


def training_sets(
    script_args: BARLScriptArguments, training_args: BARLConfig, tokenizer: Any
) -> dict[str, Any]:
    """Load what a run needs.

    Args:
        script_args: Names of the sets, their columns and prompts, and what to leave out.
        training_args: Whether to evaluate, and how chat templates are filled.
        tokenizer: For `max_prompt_length`. Benchmarks keep long prompts: all of their problems
            count.

    Returns:
        `train_dataset`, `eval_dataset` and `benchmarks`, as in [`BARLTrainer`].
    """
    is_plain = script_args.prompt_template is not None
    prompt: dict[str, Any] = {
        "system_prompt": None if is_plain else script_args.system_prompt,
        "prompt_format": script_args.prompt_template or "{problem}",
        "conversational": not is_plain,
    }

    def load(split: str, selection: Selection = NO_SELECTION) -> Dataset:
        dataset, report = load_problems(
            script_args.dataset_name,
            config=script_args.dataset_config,
            split=split,
            problem_column=script_args.problem_column,
            answer_column=script_args.answer_column,
            # the first process looks, and reports, for all of a launch
            most_parsed=MOST_PARSED if training_args.process_index == 0 else 0,
            selection=selection,
            **prompt,
        )
        _log(script_args.dataset_name, report)
        template_kwargs: Any = training_args.chat_template_kwargs or {}
        return _without_long_prompts(
            dataset, tokenizer, script_args.max_prompt_length, **template_kwargs
        )

    benchmarks = load_benchmarks(script_args.eval_benchmarks)
    for name, found in benchmarks.items():
        if found.skipped:
            logger.warning("%s: rows skipped: %s", name, found.skipped)
    left_out = load_benchmarks(script_args.decontaminate)
    held_out = benchmarks | left_out
    selection = Selection(
        deduplicate=script_args.deduplicate,
        min_solve_rate=script_args.min_solve_rate,
        max_solve_rate=script_args.max_solve_rate,
        evaluation_sets={name: found.texts for name, found in held_out.items()},
        decontaminate=[*left_out],
    )
    test_split = script_args.dataset_test_split
    if test_split is None and not script_args.eval_benchmarks:
        test_split = "test"
    evaluates = training_args.eval_strategy != "no"
    return {
        "train_dataset": load(script_args.dataset_train_split, selection),
        "eval_dataset": load(test_split) if evaluates and test_split else None,
        "benchmarks": {
            name: Dataset.from_list(
                [
                    {"prompt": make_prompt(p.text, **prompt), "solution": p.solution}
                    for p in found.problems
                ]
            )
            for name, found in benchmarks.items()
        },
    }


def _log(name: str, report: DataReport) -> None:
    """Log what became of the rows of a data set."""
    level = logging.WARNING if report.has_findings else logging.INFO
    advice = "; the rows: barl data check" if report.has_findings else ""
    logger.log(level, "%s: %s%s", name, report, advice)


def _without_long_prompts(
    dataset: Dataset, tokenizer, max_prompt_length: int | None, **template_kwargs
) -> Dataset:
    if max_prompt_length is None:
        return dataset

    def fits(prompt) -> bool:
        if isinstance(prompt, str):
            return len(tokenizer(prompt)["input_ids"]) <= max_prompt_length
        encoded = tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True, **template_kwargs
        )
        return len(encoded["input_ids"]) <= max_prompt_length

    kept = dataset.filter(fits, input_columns="prompt")
    if not len(kept):
        raise ValueError(
            f"max_prompt_length must leave at least one row, got {max_prompt_length}: all of the "
            f"{len(dataset)} prompts are longer."
        )
    if len(kept) < len(dataset):
        logger.warning(
            "%d of %d rows left out: prompt of more than max_prompt_length=%d tokens",
            len(dataset) - len(kept),
            len(dataset),
            max_prompt_length,
        )
    return kept
