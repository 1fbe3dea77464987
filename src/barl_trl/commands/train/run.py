"""A training run: what a recipe says, from the checks to the saved and pushed model."""

import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import torch.distributed as dist
import transformers
from huggingface_hub import auth_check, create_repo
from huggingface_hub.errors import HTTPError
from packaging.version import Version
from transformers import AutoTokenizer
from trl import ModelConfig, get_peft_config, get_quantization_config

from ...evaluation.checkpoints import record_training
from ...rewards import callable_at, get_reward_func
from ...trainer import BARLConfig
from ...trainer.checks.environment import named
from ...trainer.checks.preparation import prepared
from ...trainer.methods import make_trainer
from ...trainer.resume import StopTogether, last_checkpoint, left_in
from ..shell.console import mistakes_in_one_line
from ..shell.interruption import Interrupted, name_of, raised
from ..shell.parsers import printable
from .arguments import BARLScriptArguments, check_recipe
from .training_console import print_rows
from .training_sets import training_sets


def run(*parsed, note: str = "") -> None:
    """Train, save, and push to the Hub if asked to.

    A `note` is printed when no mistake was found: it must not be taken for one.
    """
    with _process_group_outliving_ddp():
        _run(*parsed, note=note)


def _run(
    script_args: BARLScriptArguments,
    training_args: BARLConfig,
    model_args: ModelConfig,
    *,
    note: str,
) -> None:
    if training_args.disable_tqdm or not sys.stderr.isatty():  # a log file is no place for bars
        transformers.utils.logging.disable_progress_bar()
        datasets.disable_progress_bars()
    with mistakes_in_one_line("barl train", path_or_id="dataset_name"):
        check_recipe(script_args, training_args, model_args)
        training_args, resume = prepared(script_args.method, training_args)
        if training_args.push_to_hub and training_args.process_index == 0:
            _refuse_unwritable(training_args)
        peft_config: Any = get_peft_config(model_args)
        trainer = _make_trainer(script_args, training_args, model_args, peft_config)
        if resume and Path(str(resume)).is_dir():  # `auto` is no folder
            trainer.refuse_checkpoint(str(resume))
    if note:
        print(note, file=sys.stderr)
    _train_and_save(script_args, trainer, resume)


def _refuse_unwritable(args: BARLConfig) -> None:
    """Refuse a repository of the Hub that `args` could not push to after training."""
    name = args.hub_model_id or Path(str(args.output_dir)).absolute().name
    try:
        made = create_repo(name, token=args.hub_token, private=args.hub_private_repo, exist_ok=True)
        auth_check(made.repo_id, token=args.hub_token, write=True)  # it may be somebody else's
    except (HTTPError, OSError, ValueError) as error:
        raise ValueError(f"hub_model_id must be a repository to push to, got {error}") from None


def _make_trainer(
    script_args: BARLScriptArguments,
    training_args: BARLConfig,
    model_args: ModelConfig,
    peft_config: Any,
) -> Any:
    names: Any = script_args.reward_funcs
    reward_funcs = [
        get_reward_func(name, max_completion_length=training_args.max_completion_length)  # type: ignore[arg-type]
        for name in ([names] if isinstance(names, str) else names)
    ]
    agents: dict[str, Any] = {
        argument: [callable_at(path, argument) for path in paths]
        for argument, paths in (script_args.agent_paths | script_args.task_paths).items()
    }
    agents |= {name: callables[0] for name, callables in agents.items() if name != "tools"}
    with named("model_name_or_path", str(model_args.model_name_or_path)):
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
            'break write in the recipe: prompt_template: "{problem}\\n".'
        )
    template_kwargs: Any = training_args.chat_template_kwargs
    record_training(
        tokenizer,
        system_prompt=script_args.system_prompt,
        prompt_template=script_args.prompt_template,
        chat_template_kwargs=template_kwargs,
    )
    model_init_kwargs: Any = training_args.model_init_kwargs or {}
    training_args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "trust_remote_code": training_args.trust_remote_code,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
        **model_init_kwargs,
    }
    return make_trainer(
        script_args.method,
        model=model_args.model_name_or_path,
        reward_funcs=reward_funcs,
        args=training_args,
        **training_sets(script_args, training_args, tokenizer),
        processing_class=tokenizer,
        quantization_config=get_quantization_config(model_args),
        peft_config=peft_config,
        **agents,
    )


def _train_and_save(
    script_args: BARLScriptArguments, trainer: Any, resume: str | bool | None
) -> None:
    try:
        print_rows(trainer)
        _train(trainer, resume, is_saved=script_args.save_on_interrupt)
        try:
            # without _internal_call it would push, too
            trainer.save_model(trainer.args.output_dir, _internal_call=True)
            if trainer.is_world_process_zero():
                trainer.create_model_card(Path(str(trainer.args.output_dir)).absolute().name)
            trainer.save_state()  # what `barl analyze curves` reads
            trainer.accelerator.print(printable(f"Model saved to {trainer.args.output_dir}."))
            if trainer.args.push_to_hub:
                name = str(script_args.dataset_name)
                is_hub = name.count("/") == 1 and not Path(name).exists()  # it refuses others
                trainer.push_to_hub(dataset_name=name if is_hub else None)
                trainer.accelerator.print(f"Model pushed to the Hub as {trainer.hub_model_id}.")
        finally:
            if Version(transformers.__version__) >= Version("5.18.0"):  # as in `trl grpo`
                trainer.end()
    except Interrupted as interrupt:
        checkpoint, _ = last_checkpoint(trainer.args.output_dir)
        interrupt.resume = "auto" if left_in(Path(trainer.args.output_dir)) else ""
        interrupt.kept = f"The last checkpoint is {checkpoint}." if checkpoint else ""
        raise


def _train(trainer: Any, checkpoint: str | bool | None, *, is_saved: bool) -> None:
    """Train; with `is_saved`, a first Ctrl-C or SIGTERM leaves a checkpoint."""
    end: StopTogether = trainer.stop_together
    end.is_saved = is_saved
    if not is_saved:
        trainer.train(checkpoint)
        return
    received = [signal.SIGTERM]

    def ask(signum: int) -> None:
        received.append(signal.Signals(signum))
        end.ask()
        effect = "a checkpoint is saved after this rollout batch. A second one ends at once."
        trainer.accelerator.print(f"barl train: {name_of(signum)}: {effect}", file=sys.stderr)

    with raised(ask):
        trainer.train(checkpoint)
    if end.has_stopped:
        raise Interrupted(received[-1])


@contextmanager
def _process_group_outliving_ddp() -> Iterator[None]:
    """Let the process group end here, after what was trained in it, and before the interpreter.

    DDP holds the group, too. If DDP freed it, which happens under Python's lock, it would wait for
    ever for a thread of gloo's, which needs the lock to free its last tensor. If the interpreter
    ended it, it would abort.
    """
    group = dist.group.WORLD
    try:
        yield
    finally:
        gc.collect()  # the trainer is part of cycles
        del group
