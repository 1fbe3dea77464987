"""`barl train`: from a recipe to a trained model, with BARL or a baseline."""

import gc
import logging
import sys
import warnings
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import transformers
from datasets import Dataset
from packaging.version import Version
from transformers import AutoTokenizer
from trl import GRPOTrainer, ModelConfig, TrlParser, get_peft_config, get_quantization_config

from .config import BARLConfig
from .data import PAPER_SYSTEM_PROMPT, load_problems
from .greedy_evaluation import EvaluatingGRPOTrainer
from .hub import PushError, claim_repository, hub_dataset, push
from .refusals import refuse_missing_vllm
from .rewards import get_reward_func
from .trainer import BARLTrainer

logger = logging.getLogger(__name__)

Method = Literal["barl", "progress", "grpo"]


@dataclass
class BARLScriptArguments:
    """Arguments of `barl train` beside [`BARLConfig`] and [`~trl.ModelConfig`]."""

    dataset_name: str = field(
        metadata={
            "help": "Dataset: a Hub id, or a local JSONL, JSON, CSV or parquet file or folder."
        }
    )
    dataset_config: str | None = field(
        default=None, metadata={"help": "Configuration of a Hub dataset."}
    )
    dataset_train_split: str = field(default="train", metadata={"help": "Split to train on."})
    dataset_test_split: str = field(
        default="test", metadata={"help": "Split to evaluate on, if `eval_strategy` is set."}
    )
    problem_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the problems. Found by itself if named problem, question or prompt."
        },
    )
    answer_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the true answers. Found by itself if named answer, final_answer or "
            "solution."
        },
    )
    system_prompt: str | None = field(
        default=PAPER_SYSTEM_PROMPT,
        metadata={
            "help": "System prompt of the conversation (default: the paper's). A `prompt_template` "
            "has none."
        },
    )
    prompt_template: str | None = field(
        default=None,
        metadata={
            "help": "For models without chat template: the prompt as plain text with `{problem}` "
            "in it. In a shell, $'{problem}\\n' ends it with a line break."
        },
    )
    max_prompt_length: int | None = field(
        default=None,
        metadata={"help": "Rows whose prompt has more tokens are left out, and counted."},
    )
    reward_funcs: list[str] = field(
        default_factory=lambda: ["accuracy_reward"],
        metadata={
            "help": "Reward functions: `accuracy_reward`, a grader (`math_verify`, `qwen`, "
            "`string`), `format_reward`, `think_format_reward`, `get_soft_overlong_punishment`, or "
            "the dotted import path of any other."
        },
    )
    method: Method = field(
        default="barl",
        metadata={
            "help": "`barl`: posterior-weighted values. `progress`: the value under the true "
            "answer alone (progress reward). `grpo`: TRL's GRPOTrainer."
        },
    )


def make_trainer(method: Method, *, args: BARLConfig, **kwargs) -> GRPOTrainer:
    """The trainer of a method, on otherwise equal settings.

    Args:
        method: `"barl"`, `"progress"` or `"grpo"`.
        args: The settings; `"progress"` sets `hypotheses="truth"`.
        **kwargs: As in [`BARLTrainer`]. What only BARL takes is not passed to GRPO.

    Raises:
        ValueError: `method` is unknown.
    """
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {list(get_args(Method))}, got {method!r}.")
    if method == "grpo":
        only_barl = ("answer_extractor", "answer_equivalence", "step_segmenter")
        kwargs = {name: value for name, value in kwargs.items() if name not in only_barl}
        return EvaluatingGRPOTrainer(args=args, **kwargs)
    if method == "progress":
        args = copy(args)
        args.hypotheses = "truth"
    return BARLTrainer(args=args, **kwargs)


def run(
    script_args: BARLScriptArguments, training_args: BARLConfig, model_args: ModelConfig
) -> None:
    """Trains, saves, and pushes to the Hub if asked to."""
    refuse_recipe(script_args, training_args, model_args)
    if training_args.push_to_hub and training_args.process_index == 0:
        claim_repository(training_args)
    names: Any = script_args.reward_funcs
    length: Any = training_args.max_completion_length
    reward_funcs = [
        get_reward_func(name, max_completion_length=length)
        for name in ([names] if isinstance(names, str) else names)
    ]
    tokenizer = AutoTokenizer.from_pretrained(
        model_args.model_name_or_path,
        revision=model_args.model_revision,
        trust_remote_code=training_args.trust_remote_code,
        truncation_side="left",
        padding_side="left",
    )
    if script_args.prompt_template is None and tokenizer.chat_template is None:
        raise ValueError(
            "prompt_template must be set, got None: the tokenizer of "
            f"{model_args.model_name_or_path} has no chat template. For the problem and a line "
            'break write in the recipe: prompt_template: "{problem}\\n"'
        )

    def load(split: str) -> Dataset:
        is_plain = script_args.prompt_template is not None
        dataset, _ = load_problems(
            script_args.dataset_name,
            config=script_args.dataset_config,
            split=split,
            problem_column=script_args.problem_column,
            answer_column=script_args.answer_column,
            system_prompt=None if is_plain else script_args.system_prompt,
            prompt_format=script_args.prompt_template or "{problem}",
            conversational=not is_plain,
        )
        template_kwargs: Any = training_args.chat_template_kwargs or {}
        return _without_long_prompts(
            dataset, tokenizer, script_args.max_prompt_length, **template_kwargs
        )

    model_init_kwargs: Any = training_args.model_init_kwargs or {}
    training_args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "trust_remote_code": training_args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **model_init_kwargs,
    }
    trainer = make_trainer(
        script_args.method,
        model=model_args.model_name_or_path,
        reward_funcs=reward_funcs,
        args=training_args,
        train_dataset=load(script_args.dataset_train_split),
        eval_dataset=load(script_args.dataset_test_split)
        if training_args.eval_strategy != "no"
        else None,
        processing_class=tokenizer,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    checkpoint = training_args.resume_from_checkpoint
    # a recipe's or an option's `true`
    trainer.train(True if str(checkpoint).lower() == "true" else checkpoint)
    try:
        # a call that is not internal pushes, too
        trainer.save_model(training_args.output_dir, _internal_call=True)
        trainer.accelerator.print(f"Model saved to {training_args.output_dir}.")
        if training_args.push_to_hub:
            push(trainer, dataset_name=hub_dataset(script_args.dataset_name))
            trainer.accelerator.print(f"Model pushed to the Hub as {trainer.hub_model_id}.")
        # gloo's threads let go of their last tensors: while the group ends, under Python's lock,
        # they could not, and both would wait for ever
        trainer.accelerator.wait_for_everyone()
    finally:
        if Version(transformers.__version__) >= Version("5.18.0"):  # as in `trl grpo`
            trainer.end()


def refuse_recipe(
    script_args: BARLScriptArguments, training_args: BARLConfig, model_args: ModelConfig
) -> None:
    """Mistakes in a recipe that the functions behind it would call by other names, or later."""
    refuse_missing_vllm(training_args)
    if model_args.model_name_or_path is None:
        raise ValueError(
            "model_name_or_path must be set, got None: a Hub id or a local folder, for instance "
            "--model_name_or_path Qwen/Qwen2.5-Math-1.5B"
        )
    if training_args.solution_column != "solution":
        raise ValueError(
            "solution_column must be left at 'solution' with `barl train`, got "
            f"{training_args.solution_column!r}: name the file's column with answer_column."
        )
    template = script_args.prompt_template
    if template is not None and script_args.system_prompt not in (None, PAPER_SYSTEM_PROMPT):
        raise ValueError(
            "system_prompt must be left out with prompt_template, got "
            f"{script_args.system_prompt!r}: write it into the template."
        )
    if template is not None and "{problem}" not in template:
        raise ValueError(
            f"prompt_template must contain {{problem}}, got {template!r}: the problem is put there."
        )


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


def main(argv: list[str] | None = None) -> None:
    """Parses a recipe (`--config FILE`) and options, then [`run`]s."""
    arguments: Any = (BARLScriptArguments, BARLConfig, ModelConfig)
    parser = TrlParser(arguments, prog="barl train")
    # TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
    warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)
    try:
        run(*parser.parse_args_and_config(argv))
    except PushError as error:
        sys.exit(f"barl train: error: {error}")
    # DDP holds the process group: its threads must end before the interpreter does
    gc.collect()


if __name__ == "__main__":
    main()
