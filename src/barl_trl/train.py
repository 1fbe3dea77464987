"""`barl train`: from a recipe to a trained model, with BARL or a baseline."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar, get_args

import torch.distributed as dist
import transformers
from packaging.version import Version
from transformers import AutoTokenizer
from trl import GRPOTrainer, ModelConfig, TrlParser, get_peft_config, get_quantization_config

from .config import BARLConfig
from .data import PAPER_SYSTEM_PROMPT
from .greedy_evaluation import EvaluatingGRPOTrainer
from .hub import PushError, claim_repository, hub_dataset, push
from .refusals import make_output_dir, refuse_missing_folder, refuse_missing_vllm
from .resuming import checkpoint_to_resume
from .rewards import get_reward_func
from .train_arguments import LENGTH_CONTROLLED_TOKENS, BARLScriptArguments, Method
from .trainer import BARLTrainer
from .training_sets import training_sets

Settings = TypeVar("Settings", bound=BARLConfig)


def make_trainer(method: Method, *, args: BARLConfig, **kwargs) -> GRPOTrainer:
    """The trainer of a method, on otherwise equal settings.

    Args:
        method: `"barl"`, `"progress"`, `"grpo"` or `"grpo_length_controlled"`.
        args: The settings; `"progress"` sets `hypotheses="truth"`, the last one
            `max_completion_length=32` where it is more.
        **kwargs: As in [`BARLTrainer`]. What only BARL takes is not passed to GRPO.

    Raises:
        ValueError: `method` is unknown.
    """
    args = arm_settings(method, args)
    if method.startswith("grpo"):
        only_barl = ("answer_extractor", "answer_equivalence", "step_segmenter")
        kwargs = {name: value for name, value in kwargs.items() if name not in only_barl}
        return EvaluatingGRPOTrainer(args=args, **kwargs)
    return BARLTrainer(args=args, **kwargs)


def arm_settings(method: Method, args: Settings) -> Settings:
    """The settings with what a method changes in them."""
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {list(get_args(Method))}, got {method!r}.")
    args = copy(args)
    if method == "progress":
        if args.outcome_mode != "ground_truth":
            raise ValueError(
                "outcome_mode must be 'ground_truth' with method='progress', got "
                f"{args.outcome_mode!r}: there are no other hypotheses."
            )
        args.hypotheses = "truth"
    if method == "grpo_length_controlled":
        most: Any = args.max_completion_length
        args.max_completion_length = min(most or LENGTH_CONTROLLED_TOKENS, LENGTH_CONTROLLED_TOKENS)
    return args


def run(
    script_args: BARLScriptArguments, training_args: BARLConfig, model_args: ModelConfig
) -> None:
    """Trains, saves, and pushes to the Hub if asked to."""
    refuse_missing_vllm(training_args)
    refuse_recipe(script_args, training_args, model_args)
    training_args = arm_settings(script_args.method, training_args)
    output_dir = str(training_args.output_dir)
    checkpoint = checkpoint_to_resume(training_args.resume_from_checkpoint, output_dir)
    if training_args.push_to_hub and training_args.process_index == 0:
        claim_repository(training_args)
    make_output_dir(output_dir)
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
        **training_sets(script_args, training_args, tokenizer),
        processing_class=tokenizer,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    trainer.train(checkpoint)
    try:
        # a call that is not internal pushes, too
        trainer.save_model(training_args.output_dir, _internal_call=True)
        trainer.save_state()  # what `barl analyze curves` reads
        trainer.accelerator.print(f"Model saved to {training_args.output_dir}.")
        if training_args.push_to_hub:
            push(trainer, dataset_name=hub_dataset(script_args.dataset_name))
            trainer.accelerator.print(f"Model pushed to the Hub as {trainer.hub_model_id}.")
    finally:
        if Version(transformers.__version__) >= Version("5.18.0"):  # as in `trl grpo`
            trainer.end()


def refuse_recipe(
    script_args: BARLScriptArguments, training_args: BARLConfig, model_args: ModelConfig
) -> None:
    """Mistakes in a recipe that the functions behind it would call by other names."""
    if model_args.model_name_or_path is None:
        raise ValueError(
            "model_name_or_path must be set, got None: a Hub id or a local folder, for instance "
            "--model_name_or_path Qwen/Qwen2.5-Math-1.5B"
        )
    refuse_missing_folder("model_name_or_path", model_args.model_name_or_path)
    if script_args.eval_benchmarks and training_args.eval_strategy == "no":
        raise ValueError(
            "eval_strategy must be set with eval_benchmarks, got 'no': for instance "
            "--eval_strategy steps --eval_steps 50"
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


def main(argv: list[str] | None = None) -> None:
    """Parses a recipe (`--config FILE`) and options, then [`run`]s."""
    arguments: Any = (BARLScriptArguments, BARLConfig, ModelConfig)
    parser = TrlParser(arguments, prog="barl train")
    parsed = parser.parse_args_and_config(argv)
    failure = None
    with process_group_outliving_ddp():
        try:
            run(*parsed)
        except PushError as error:
            failure = f"barl train: error: {error}"
    if failure:
        sys.exit(failure)


@contextmanager
def process_group_outliving_ddp() -> Iterator[None]:
    """Lets the process group end here, after what was trained in it, and before the interpreter.

    DDP holds it, too. Freed with DDP, under Python's lock, it would wait for ever for a thread of
    gloo's that wants the lock to let go of its last tensor; ended by the interpreter, it aborts.
    """
    group = dist.group.WORLD
    try:
        yield
    finally:
        gc.collect()  # the trainer is part of cycles
        del group


if __name__ == "__main__":
    main()
