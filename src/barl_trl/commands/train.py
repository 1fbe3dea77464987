"""`barl train`: from a recipe and options to a trained model, on TRL's parser."""

import argparse
import gc
import inspect
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from datasets import Dataset
from huggingface_hub import auth_check, create_repo
from huggingface_hub.errors import HfHubHTTPError, HTTPError
from trl import ModelConfig, get_peft_config, get_quantization_config

from ..data import MOST_PARSED, PAPER_SYSTEM_PROMPT, load_problems, make_prompt, with_short_prompts
from ..evaluation.benchmarks import load_benchmarks, parse_benchmarks
from ..evaluation.provenance import record_training
from ..evaluation.templates import read_tokenizer
from ..rewards import callable_at, get_reward_func
from ..rows import messages_of
from ..trainer import BARLConfig, BARLTrainer
from ..trainer.config import option
from ..trainer.hub import reason
from ..trainer.progress import ProgressRows
from ..trainer.resume import find_checkpoint, last_checkpoint, left_in
from .recipes import RecipeParser, file_of, model_of, refuse_broken

_logger = logging.getLogger(__name__)
_FUNCTIONS = (
    *("environment_factory", "rollout_func", "observation_likelihood"),
    *("hypothesis_rewards", "outcome_under", "answer_equivalence"),
)


@dataclass
class ScriptArguments:
    """What `barl train` takes beside [`BARLConfig`] and TRL's `ModelConfig`."""

    # fmt: off
    dataset_name: str = field(metadata={
        "help": "Dataset (required): Hub id, or local JSONL, JSON, CSV or parquet."})
    dataset_config: str | None = option(None, "Configuration of a Hub dataset.")
    dataset_train_split: str = option("train", "Split to train on, or a part as `train[100:]`.")
    dataset_test_split: str | None = option(None,
        "Split of TRL's own evaluation, which samples as training does, if `eval_strategy` is set. "
        "None: `test`, or none with `eval_benchmarks`.")
    problem_column: str | None = option(None,
        "Problems, if not in a usual column: a column, a path into its cells as "
        "`extra_info.question`, or a text with {columns} in it.")
    answer_column: str | None = option(None,
        "True answers, likewise, for instance `reward_model.ground_truth`.")
    system_prompt: str | None = option(PAPER_SYSTEM_PROMPT, "System prompt of the conversation.")
    prompt_template: str | None = option(None,
        "Prompt for models without a chat template: plain text with `{problem}` in it, such as "
        "'{problem}\\n' with a line break.")
    max_prompt_length: int | None = option(None,
        "Most tokens of a prompt. Rows with longer prompts are left out and counted.")
    reward_funcs: list[str] = field(default_factory=lambda: ["accuracy_reward"], metadata={
        "help": "Reward functions, by name (`accuracy_reward`, `math_verify`, `qwen`, `string`, "
        "`format_reward`, `think_format_reward`, `get_soft_overlong_punishment`) or dotted path. "
        "May be `[]` in a recipe where the environment has a reward."})
    tools: list[str] = field(default_factory=list, metadata={
        "help": "Tools that the model may call, by dotted path."})
    environment_factory: str | None = option(None,
        "Environment of an agent: dotted path of its class, or of what makes one.")
    rollout_func: str | None = option(None,
        "What makes the rollouts, by dotted path, as `GRPOTrainer` takes it.")
    observation_likelihood: str | None = option(None,
        "How likely observations are under each hypothesis: dotted path of a function.")
    hypothesis_rewards: str | None = option(None,
        "Which rewards each hypothesis predicts: dotted path of a function.")
    outcome_under: str | None = option(None,
        "Outcome reward of an answer under a hypothesis: dotted path of a function.")
    answer_equivalence: str | None = option(None,
        "Which answers are one hypothesis: dotted path of a function.")
    eval_benchmarks: str | None = option(None,
        "Benchmarks that are evaluated greedily every `eval_steps` steps, named as in `barl "
        "evaluate`: `math500,gsm8k=data/gsm8k.jsonl,mine=my.csv`.")
    decontaminate: str | None = option(None,
        "Evaluation sets whose problems are left out of training, named likewise.")
    deduplicate: bool = option(False, "Leave out rows that repeat the problem of an earlier row.")
    save_on_interrupt: bool = option(False,
        "On Ctrl-C or SIGTERM, end the rollout batch and save a checkpoint. A second ends at once.")
    # fmt: on

    @property
    def functions(self) -> dict[str, Any]:
        """The user's callables, by the trainer's argument."""
        paths = {name: vars(self)[name] for name in _FUNCTIONS}
        found = {n: callable_at(path, n) for n, path in paths.items() if path is not None}
        tools = [callable_at(path, "tools") for path in self.tools]
        return found | ({"tools": tools} if tools else {})


def _refuse_contradictions(script: ScriptArguments, args: BARLConfig, model: ModelConfig) -> None:
    """Refuse what would be ignored in silence, or said only when the model is loaded."""
    template, weights, names = script.prompt_template, args.reward_weights, script.reward_funcs
    is_own_prompt = script.system_prompt != PAPER_SYSTEM_PROMPT
    evaluates, given = args.eval_strategy != "no", vars(model).items()
    is_usual = args.solution_column == "solution"
    lora = [n for n, v in given if n.startswith("lora_") and v != getattr(ModelConfig, n, None)]
    rules = {
        "model_name_or_path must be a Hub id or a local folder": model.model_name_or_path,
        "dataset_name must be a Hub id or a local file": script.dataset_name,
        "learning_rate must be at least 0": args.learning_rate >= 0,
        "eval_strategy must be set with eval_benchmarks": evaluates or not script.eval_benchmarks,
        "prompt_template must contain {problem}": template is None or "{problem}" in template,
        "system_prompt must be left out with prompt_template": not (template and is_own_prompt),
        "solution_column must be 'solution': name yours with answer_column": is_usual,
        f"use_peft must be true with {', '.join(lora)}": model.use_peft or not lora,
        "lora_task_type must be CAUSAL_LM": model.lora_task_type == "CAUSAL_LM",
        f"reward_weights must have one for each of {names}": weights is None
        or len(weights) == len(names),
    }
    refuse_broken(rules, script, args, model)


def run(argv: list[str]) -> None:
    """Parse a recipe and options; train, save, and push to the Hub if that is asked for."""
    if launch := _launch_command(argv):
        os.environ["BARL_LAUNCHED"] = "1"  # the processes end with their launcher
        os.execv(launch[0], launch)
    parser = RecipeParser(ScriptArguments, BARLConfig, ModelConfig, prog="barl train")
    if {"-h", "--help", "--help-all"} & {*argv}:
        _print_help(parser, lists_all="--help-all" in argv)
        return
    has_gpu = torch.accelerator.is_available()
    if not has_gpu:  # TRL's bfloat16 would be slow, or fail
        parser.set_defaults(use_cpu=True, bf16=False)
    script, args, model = parser.parse_args_and_config(argv)
    _refuse_contradictions(script, args, model)
    if args.disable_tqdm or not sys.stderr.isatty():  # a log file is no place for bars
        transformers.utils.logging.disable_progress_bar()
        datasets.disable_progress_bars()
    find_checkpoint(args, args.resume_from_checkpoint)  # refuses a used folder, too
    Path(str(args.output_dir)).mkdir(parents=True, exist_ok=True)
    with _process_group_outliving_ddp():
        is_pushed = args.push_to_hub
        if is_pushed and args.process_index == 0:
            _refuse_unwritable(args)
        trainer = _make_trainer(script, args, model)
        if not has_gpu:
            trainer.accelerator.print("No GPU was found: the CPU trains.")
        _show_first_row(trainer)
        _train(trainer, is_saved=script.save_on_interrupt)
        trainer.save_model(args.output_dir, _internal_call=True)  # else it would push, too
        trainer.create_model_card()
        trainer.save_state()
        trainer.accelerator.print(f"Model saved to {args.output_dir}.")
        if is_pushed:
            _push(trainer, script.dataset_name)
        trainer.accelerator.end_training()


def _refuse_unwritable(args: BARLConfig) -> None:
    """Refuse a repository of the Hub that could not be pushed to after training."""
    name = args.hub_model_id or Path(str(args.output_dir)).absolute().name
    try:
        made = create_repo(name, token=args.hub_token, private=args.hub_private_repo, exist_ok=True)
        auth_check(made.repo_id, token=args.hub_token, write=True)  # it may be somebody else's
    except (HfHubHTTPError, OSError, ValueError) as error:
        why = f"got {name!r}: {reason(error, args)}"
        raise ValueError(f"hub_model_id must be a repository to push to, {why}") from None
    except HTTPError as error:
        args.push_to_hub = False
        why = reason(error, args)
        _logger.warning("the Hub does not answer (%s): only the end is pushed.", why)


def _push(trainer: BARLTrainer, dataset: Any) -> None:
    """Push the saved model; the Hub refuses a model card that names a local file."""
    args, folder = trainer.args, str(trainer.args.output_dir)
    given = dataset if dataset.count("/") == 1 and not Path(dataset).exists() else None
    try:
        trainer.push_to_hub(dataset_name=given)
    except (HTTPError, OSError, ValueError) as error:
        why = reason(error, args)
        name = trainer.hub_model_id or args.hub_model_id or Path(folder).name
        ignored = ["checkpoint-*", "_*"] + ["beliefs/*"] * (not args.push_beliefs)
        held_back = "".join(f" --exclude '{one}'" for one in ignored)
        raise OSError(
            f"the model is saved in {folder}, but was not pushed to {name}: {why} To push it "
            f"later: hf upload {name} {shlex.quote(folder)} .{held_back}"
        ) from None
    trainer.accelerator.print(f"Model pushed to the Hub as {trainer.hub_model_id}.")


def _print_help(parser: RecipeParser, *, lists_all: bool) -> None:
    """Print the options: BARL's and those of the data, or all, also TRL's."""
    own = {"model_name_or_path", "output_dir"}
    own |= {*inspect.get_annotations(ScriptArguments), *inspect.get_annotations(BARLConfig)}
    for action in parser._actions:
        if not lists_all and action.dest not in own:
            action.help = argparse.SUPPRESS
    parser.epilog = (
        "--config: a YAML file of options, or a name that `barl recipes` lists. --help-all: list "
        "every option, also TRL's. --accelerate_config: how processes share the work, a name that "
        "`barl recipes` lists, or a file that `accelerate config` made. --num_processes: number of "
        "processes, one for each device."
    )
    parser.print_help()


def _launch_command(argv: list[str]) -> list[str] | None:
    """Return the `accelerate launch` command that `argv` asks for, or None if it asks for none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--accelerate_config")
    parser.add_argument("--num_processes", type=int)
    try:
        options, others = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    config, number = options.accelerate_config, options.num_processes
    if config is None and number is None:
        return None
    if "RANK" in os.environ or (number is not None and number < 1):
        raise ValueError(
            "--accelerate_config and --num_processes must be left out under another launcher, and "
            f"be a file and a number above 0, got {config} and {number}."
        )
    if config is None and number != 1 and not torch.accelerator.is_available():
        config = "cpu/ddp"  # without a GPU accelerate would start one process
    python = [sys.executable, "-P", "-m"]  # no module of the working directory shadows another
    launch = [*python, "accelerate.commands.launch"]
    launch += ["--config_file", str(file_of("accelerate_config", config))] if config else []
    launch += ["--num_processes", str(number)] if number else []
    return [*launch, "--no_python", *python, "barl_trl", "train", *others]


def _make_trainer(script: ScriptArguments, args: BARLConfig, model: ModelConfig) -> BARLTrainer:
    name = model_of(str(model.model_name_or_path))
    length: Any = args.max_completion_length
    rewards: Any = [get_reward_func(f, max_completion_length=length) for f in script.reward_funcs]
    remote: Any = {"revision": model.model_revision, "trust_remote_code": args.trust_remote_code}
    sides = {"truncation_side": "left", "padding_side": "left"}
    tokenizer = read_tokenizer(name, "model_name_or_path", **remote, **sides)
    if script.prompt_template is None and tokenizer.chat_template is None:
        raise ValueError(
            f"prompt_template must be set, got None: the tokenizer of {name} has no chat template. "
            "For the problem and a line break: --prompt_template '{problem}\\n'"
        )
    options: Any = args.chat_template_kwargs
    record_training(tokenizer, script.system_prompt, script.prompt_template, options)
    loading: Any = {"attn_implementation": model.attn_implementation, "dtype": model.dtype}
    args.model_init_kwargs = remote | loading | (args.model_init_kwargs or {})
    data_sets = _data_sets(script, args, tokenizer)
    try:
        return BARLTrainer(
            name,
            rewards,
            args,
            processing_class=tokenizer,
            callbacks=[ProgressRows()],
            quantization_config=get_quantization_config(model),
            peft_config=get_peft_config(model),
            **data_sets,
            **script.functions,
        )
    except (RuntimeError, TypeError) as error:  # no such tracker, too little memory, ...
        raise ValueError(str(error)) from error


def _data_sets(script: ScriptArguments, args: BARLConfig, tokenizer: Any) -> dict[str, Any]:
    """Load the trainer's `train_dataset`, `eval_dataset` and `benchmarks`."""
    is_plain = script.prompt_template is not None
    prompt: dict[str, Any] = {
        "system_prompt": None if is_plain else script.system_prompt,
        "prompt_format": script.prompt_template or "{problem}",
        "conversational": not is_plain,
    }
    # for the user's own functions
    keeps = bool(script.functions) or any("." in name for name in script.reward_funcs)
    # plain RL needs those that are named, or that environments or rewards take
    takes = [inspect.signature(get_reward_func(n)).parameters for n in script.reward_funcs]
    are_read = script.answer_column or script.functions or any("solution" in one for one in takes)
    are_read = are_read or args.own_credit.hypotheses != "none"

    def sets(option: str) -> dict[str, Any]:
        named = parse_benchmarks(vars(script)[option], option)
        return load_benchmarks(named, keep_columns=keeps, option=option)

    benchmarks, left_out = sets("eval_benchmarks"), sets("decontaminate")
    if lost := {name: one.skipped for name, one in benchmarks.items() if one.skipped}:
        _logger.warning("rows of benchmarks were skipped: %s", lost)

    def load(split: str, **selection: Any) -> Dataset:
        dataset, report = load_problems(
            script.dataset_name,
            config=script.dataset_config,
            split=split,
            problem_column=script.problem_column,
            answer_column=script.answer_column,
            # the first process looks, and reports, for all of a launch
            most_parsed=MOST_PARSED if args.process_index == 0 else 0,
            keep_columns=keeps or bool(args.hypotheses_column),
            keep_unanswered=not (args.own_credit.needs_truth and are_read),
            **selection,
            **prompt,
        )
        if report.has_findings:
            _logger.warning("%s: %s; the rows: barl data check", script.dataset_name, report)
        options: Any = args.chat_template_kwargs or {}
        return with_short_prompts(dataset, tokenizer, script.max_prompt_length, **options)

    def rows(benchmark: Any) -> Dataset:  # with long prompts, too: all of its problems count
        problems = [
            {**columns, "prompt": make_prompt(text, **prompt), "solution": solution}
            for _, text, solution, columns in benchmark.problems
        ]
        return Dataset.from_list(problems)

    test_split = script.dataset_test_split or (None if script.eval_benchmarks else "test")
    return {
        "train_dataset": load(
            script.dataset_train_split,
            deduplicate=script.deduplicate,
            evaluation_sets={name: one.texts for name, one in (benchmarks | left_out).items()},
            decontaminate=[*left_out],
        ),
        "eval_dataset": load(test_split) if test_split and args.eval_strategy != "no" else None,
        "benchmarks": {name: rows(benchmark) for name, benchmark in benchmarks.items()},
    }


def _show_first_row(trainer: BARLTrainer) -> None:
    """Print a prompt as the model will see it, but for what environments add, and its truth."""
    row: Any = next(iter(trainer.train_dataset or ()))
    prompt = row["prompt"]
    options: Any = trainer.args.chat_template_kwargs or {}
    if messages := messages_of(prompt):
        template: Any = {"tools": trainer.tools or None, "chat_template": trainer.chat_template}
        template |= {"add_generation_prompt": True, "tokenize": False, **options}
        prompt = trainer._tokenizer.apply_chat_template(messages, **template)
    trainer.accelerator.print(f"first prompt: {prompt!r}\ntrue answer: {row['solution']!r}")


def _train(trainer: BARLTrainer, *, is_saved: bool) -> None:
    """Train, and say how to go on if it fails; with `is_saved`, Ctrl-C leaves a checkpoint."""
    args, stop = trainer.args, trainer.saves_and_stops
    stop.is_saved = is_saved

    def ask(signum: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        stop.ask()
        trainer.accelerator.print("A checkpoint is saved after these rollouts. Again ends at once.")

    for number in (signal.SIGINT, signal.SIGTERM) if is_saved else ():
        signal.signal(number, ask)
    try:
        trainer.train(args.resume_from_checkpoint)
        if stop.has_stopped:
            raise KeyboardInterrupt
    except (Exception, KeyboardInterrupt) as error:
        folder = Path(str(args.output_dir))
        checkpoint = last_checkpoint(folder)[0] or ("auto" if left_in(folder) else None)
        option = checkpoint and f" with --resume_from_checkpoint {shlex.quote(checkpoint)}"
        way_on = f"The same command{option or ''} goes on."
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(way_on) from None
        if not trainer.is_in_train:  # settings, that the checkpoint contradicts
            raise
        failed = f"training failed after step {trainer.state.global_step}."
        if isinstance(error, ValueError) and " must " in str(error):  # a function of the user's
            raise ValueError(f"{error} {failed} {way_on if checkpoint else ''}") from None
        raise RuntimeError(f"{failed} {way_on}") from error


@contextmanager
def _process_group_outliving_ddp() -> Iterator[None]:
    """Let the process group end here, after what was trained in it, and before the interpreter.

    If DDP freed it, under Python's lock, it would wait for ever for a thread of gloo's that needs
    the lock. If the interpreter ended it, it would abort.
    """
    group = torch.distributed.group.WORLD
    try:
        yield
    finally:
        gc.collect()  # the trainer is part of cycles
        del group
