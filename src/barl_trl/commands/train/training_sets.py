"""The data sets of a training run: problems to train on, to evaluate on, and benchmarks."""

import logging
from typing import Any

from datasets import Dataset

from ...data import MOST_PARSED, load_problems, make_prompt, with_short_prompts
from ...evaluation.benchmarks import load_benchmarks, parse_benchmarks
from ...trainer import BARLConfig
from .arguments import BARLScriptArguments

_logger = logging.getLogger(__name__)


def training_sets(
    script_args: BARLScriptArguments, training_args: BARLConfig, tokenizer: Any
) -> dict[str, Any]:
    """Load what a run needs: [`BARLTrainer`]'s `train_dataset`, `eval_dataset` and `benchmarks`.

    Benchmarks keep long prompts: all of their problems count.
    """
    is_plain = script_args.prompt_template is not None
    prompt: dict[str, Any] = {
        "system_prompt": None if is_plain else script_args.system_prompt,
        "prompt_format": script_args.prompt_template or "{problem}",
        "conversational": not is_plain,
    }
    train_split, *test_splits = script_args.splits(training_args.eval_strategy)
    benchmarks, left_out = (
        load_benchmarks(
            parse_benchmarks(getattr(script_args, option), option),
            keep_columns=script_args.reads_columns,
            option=option,
        )
        for option in ("eval_benchmarks", "decontaminate")
    )
    for name, benchmark in benchmarks.items():
        if benchmark.skipped:
            _logger.warning("%s: rows skipped: %s", name, benchmark.skipped)
    held_out = benchmarks | left_out
    selection = {
        "deduplicate": script_args.deduplicate,
        "evaluation_sets": {name: benchmark.texts for name, benchmark in held_out.items()},
        "decontaminate": [*left_out],
    }

    def load(split: str, **selection: Any) -> Dataset:
        dataset, report = load_problems(
            script_args.dataset_name,
            config=script_args.dataset_config,
            split=split,
            problem_column=script_args.problem_column,
            answer_column=script_args.answer_column,
            # the first process looks, and reports, for all of a launch
            most_parsed=MOST_PARSED if training_args.process_index == 0 else 0,
            keep_columns=script_args.reads_columns or bool(training_args.hypotheses_column),
            keep_unanswered=not training_args.own_credit.needs_truth,
            **selection,
            **prompt,
        )
        level = logging.WARNING if report.has_findings else logging.INFO
        advice = "; the rows: barl data check" if report.has_findings else ""
        _logger.log(level, "%s: %s%s", script_args.dataset_name, report, advice)
        template_kwargs: Any = training_args.chat_template_kwargs or {}
        most = script_args.max_prompt_length
        return with_short_prompts(dataset, tokenizer, most, **template_kwargs)

    return {
        "train_dataset": load(train_split, **selection),
        "eval_dataset": load(test_splits[0]) if test_splits else None,
        "benchmarks": {
            name: Dataset.from_list(
                [
                    {**p.columns, "prompt": make_prompt(p.text, **prompt), "solution": p.solution}
                    for p in benchmark.problems
                ]
            )
            for name, benchmark in benchmarks.items()
        },
    }
