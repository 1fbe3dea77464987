"""Mistakes in arguments and data that would train wrongly in silence, or be told late."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from accelerate import PartialState
from accelerate.utils import parse_flag_from_env
from datasets import Dataset, IterableDataset
from peft import PeftModel
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.integrations import is_deepspeed_zero3_enabled
from trl import is_conversational

from ..data import unreadable
from ..graders import get_grader
from ..hypotheses import given_hypotheses, is_truth, truth_answer
from ..rewards import AccuracyReward, resolve_rewards
from ..steps import step_ends_of
from .config import BARLConfig
from .evidence import ENVIRONMENT_METHOD

_LOOKED_AT = 200  # first rows whose true answers and hypotheses are checked
# what TRL passes to reward functions, beside the columns
_OF_TRL = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}


# fmt: off
def check_trainer_arguments(
    model: Any, args: Any, reward_funcs: Any, train_dataset: Any, eval_dataset: Any,
    keywords: dict[str, Any],
) -> list[Any]:
    """Return the rewards; refuse arguments of [`BARLTrainer`], some of them `keywords`, by name.

    Raises:
        ValueError: An argument breaks a rule, or (TypeError) `args` is no [`BARLConfig`].
    """
    if not isinstance(args, BARLConfig):
        raise TypeError(f"args must be a BARLConfig, got {type(args).__name__}.")
    args.check_credit_options()  # the credit may have been set since
    # with several turns, each is a step
    divided = ("step_segmenter", "tools", "environment_factory", "rollout_func")
    _warn_of_settings(args, have_fixed_steps=not any(keywords.get(name) for name in divided))
    _must(args.extraction == "boxed" or not keywords.get("answer_extractor"),
          f"extraction must be left at 'boxed' with an answer_extractor, got {args.extraction!r}.")
    if segmenter := keywords.get("step_segmenter"):
        step_ends_of([0, 1, 2, 3], segmenter)
    peft_config = keywords.get("peft_config")
    adapters: Any = model.peft_config.values() if isinstance(model, PeftModel) else [peft_config]
    kinds = {adapter.peft_type.value for adapter in adapters if adapter is not None}
    _must(not args.gradient_checkpointing or not kinds & {"PREFIX_TUNING", "CARTRIDGE"},
          f"gradient_checkpointing must be False with {kinds}: it drops the cache of the prefix.")
    _check_agents(args, train_dataset, keywords)
    length: Any = args.max_completion_length
    rewards = resolve_rewards(reward_funcs or [], args.extraction, max_completion_length=length)
    rewards = rewards if isinstance(rewards, list) else [rewards]
    names = [_logged_as(reward) for reward in rewards if callable(reward)]
    _must(len({*names}) == len(names), f"reward_funcs must have names of their own, got {names}.")
    refuse_unusable_tokenizer(keywords.get("processing_class"), train_dataset)
    _check_task(args, rewards, keywords)
    sets = eval_dataset if isinstance(eval_dataset, dict) else {"eval_dataset": eval_dataset}
    for name, dataset in {"train_dataset": train_dataset, **sets}.items():
        if isinstance(dataset, Dataset | IterableDataset):  # TRL refuses what is none
            _check_dataset(name, dataset, args, rewards, keywords)
    return rewards


def _must(holds: Any, text: str) -> None:
    if not holds:
        raise ValueError(text)


def _warn_of_settings(args: BARLConfig, *, have_fixed_steps: bool) -> None:
    most, is_scored = args.max_completion_length, args.own_credit.hypotheses != "none"
    if have_fixed_steps and most and args.step_size >= most and is_scored:
        warnings.warn(f"step_size={args.step_size} is not less than max_completion_length={most}: "
                      "all tokens of a completion have one weight, as in plain RL.", stacklevel=5)
    # vLLM's log-probabilities are normalized over what it samples from, the trainer's over all
    neutral = {"top_p": [1], "top_k": [0, -1], "min_p": [None, 0], "repetition_penalty": [1]}
    biased = [name for name, values in neutral.items() if getattr(args, name) not in values]
    if biased and args.use_vllm and args.vllm_importance_sampling_correction:
        warnings.warn(f"{biased[0]}={getattr(args, biased[0])}: vLLM's distribution is not the "
                      "trainer's, so that the importance ratio is biased. Leave it out, or set "
                      "vllm_importance_sampling_correction=False.", stacklevel=5)


def _check_agents(args: BARLConfig, train_dataset: Any, keywords: dict[str, Any]) -> None:
    """Refuse what TRL does not train rightly with tools and environments."""
    name = next(filter(keywords.get, ("tools", "environment_factory")), None)
    if name is None:
        return
    _must(keywords.get("rollout_func") is None,
          f"rollout_func must be None with {name}: TRL would ignore its env_mask.")
    _must(train_dataset is not None,
          f"train_dataset must be given with {name}: the rollouts of a group must share a row.")
    _must(not args.use_vllm or args.vllm_mode != "server" or PartialState().num_processes == 1,
          f"vllm_mode must be 'colocate' with {name}: TRL would mix up the processes' rollouts.")
    is_fsdp = args.fsdp or parse_flag_from_env("ACCELERATE_USE_FSDP")
    _must(args.use_vllm or not (is_fsdp or is_deepspeed_zero3_enabled()),
          f"use_vllm must be True with {name} and ZeRO-3 or FSDP: the processes would generate "
          "unequally often, and wait for each other.")
    prompt = next(iter(train_dataset), {}).get("prompt")
    _must(not isinstance(prompt, str),
          f"train_dataset must have messages as prompts with {name}, got {prompt!r:.80}.")


def _check_task(args: BARLConfig, rewards: Sequence[Any], keywords: dict[str, Any]) -> None:
    """Refuse functions of the task that change nothing, and rewards that they would replace."""
    credit, belief = args.credit, args.belief
    is_expected = credit == "bayes" or (credit == "belief_critic" and belief != "model")
    is_own = args.own_credit.function.__module__.startswith("barl_trl.")
    observes, predicts = map(keywords.get, ("observation_likelihood", "hypothesis_rewards"))
    _must(observes is None or belief != "model",
          "belief must be 'task' or 'both' with observation_likelihood, got 'model'.")
    _must(not keywords.get("outcome_under") or is_expected or not is_own,
          f"outcome_under must be None with credit={credit!r}: 'bayes' takes it.")
    _must(predicts is None or args.own_credit.hypotheses == "rollouts",
          f"hypothesis_rewards must be None with credit={credit!r} and belief={belief!r}.")
    given = keywords.get("environment_factory") or ()
    factories = [*given.values()] if isinstance(given, dict) else [given] * bool(given)
    names = [_logged_as(reward) for reward in rewards if not getattr(reward, "is_cost", False)]
    # each rollout gets the reward of its own environment
    names += [_logged_as(one) for one in factories if hasattr(one, "get_reward")][:1]
    _must(not is_expected or len(names) <= 1,
          f"reward_funcs must have one that is no cost with credit={credit!r}, got {names}: its "
          "expectation replaces it. Mark others with barl_trl.rewards.cost.")
    tells = observes or predicts or any(hasattr(one, ENVIRONMENT_METHOD) for one in factories)
    if belief != "model" and not tells and all(map(inspect.isclass, factories)):
        warnings.warn(f"belief={belief!r} without observation_likelihood, hypothesis_rewards or "
                      f"{ENVIRONMENT_METHOD}: only the prior tells hypotheses apart.", stacklevel=5)


def _check_dataset(
    name: str, dataset: Dataset | IterableDataset, args: BARLConfig, rewards: Sequence[Any],
    keywords: dict[str, Any],
) -> None:
    """Refuse a data set without prompts, or too small; only the first row of a stream is read."""
    columns = {*next(iter(dataset), {})}
    _must(columns, f"{name} must have rows, got none.")
    images = {"image", "images"} & columns
    _must(not images, f"{name} must be text-only, got the column {images}: remove it.")
    _must("prompt" in columns, f"{name} must have the column 'prompt', got {sorted(columns)}: "
          "barl_trl.data.load_problems reads most data sets.")
    first = next(iter(dataset))
    _must(isinstance(first["prompt"], str) or is_conversational(first),
          f"{name} must have texts or lists of messages as prompts, got {first['prompt']!r:.60}.")
    clashes = (_OF_TRL | {"environments", "rollout_answer"}) & columns
    _must(not clashes, f"{name} must have no column {clashes}: rewards get arguments of that name.")
    empty = _first_empty(dataset if isinstance(dataset, Dataset) else dataset.take(1))
    _must(empty is None, f"{name} must have a prompt in every row, got none in row {empty}.")
    if name == "train_dataset" and isinstance(dataset, Dataset):
        prompts = int(args.generation_batch_size or 0) // (args.num_generations or 1)
        _must(len(dataset) >= prompts,
              f"{name} must have the {prompts} rows of a rollout batch, got {len(dataset)}.")
    if name == "train_dataset":
        first_rows = [*islice(dataset, _LOOKED_AT)]
        _check_truths(args, first_rows, rewards, keywords)
        _check_hypotheses(args, first_rows)
    if keywords.get("rollout_func") is None:  # it may add columns
        _check_signatures(columns, rewards, keywords)


def _first_empty(dataset: Dataset | IterableDataset) -> int | None:
    """Return the index of the first row whose prompt has no text, or a message without content."""
    tables: Any = dataset.select_columns("prompt").with_format("arrow").iter(1000)
    for row, prompt in enumerate(one for table in tables for one in table["prompt"].to_pylist()):
        parts = prompt if isinstance(prompt, list) else []
        contents = [one.get("content", "") if isinstance(one, dict) else one for one in parts]
        if not prompt or None in contents:
            return row
    return None


def _check_signatures(columns: set[str], rewards: Sequence[Any], keywords: dict[str, Any]) -> None:
    """Refuse rewards and functions of the task that do not take the arguments that they get."""
    columns = columns - {"prompt", "completion"}
    columns |= {"environments"} if keywords.get("environment_factory") else set()
    told = {"rollout_answer"} if keywords.get("environment_factory") else set()
    of_task = columns | {"prompts", "completions", "hypotheses", "steps"}
    functions = [("reward_funcs", reward, columns | _OF_TRL | told) for reward in rewards]
    for argument in ("observation_likelihood", "hypothesis_rewards"):
        functions.append((argument, keywords.get(argument), of_task))
    for argument, function, names in functions:
        try:
            if callable(function) and not isinstance(function, nn.Module):
                inspect.signature(function).bind(**dict.fromkeys(names))
        except ValueError:  # some callables have no signature
            continue
        except TypeError as error:
            must, got = ", ".join(sorted(names)), _logged_as(function)
            raise ValueError(f"{argument} must take {must}, got {got}: {error}.") from None


def _check_truths(
    args: BARLConfig, rows: list[dict[str, Any]], rewards: Sequence[Any], keywords: dict[str, Any]
) -> None:
    """Refuse true answers that are missing, or that the grader does not read."""
    column = args.solution_column
    if not args.own_credit.needs_truth:
        return
    _must(column in rows[0],
          f"solution_column must name a column of train_dataset, got {column!r}: {[*rows[0]]}.")
    usable = [*filter(is_truth, (truth_answer(row[column]) for row in rows))]
    _must(2 * len(usable) >= len(rows),
          f"solution_column must hold true answers, got {column!r}, which has {len(usable)} usable "
          f"ones in the first {len(rows)} rows. `barl data check` lists the rows of a file.")
    graders = [reward.grader.name for reward in rewards if isinstance(reward, AccuracyReward)]
    is_default = not graders and keywords.get("answer_equivalence") is None
    if is_default or "math_verify" in graders:
        unread = unreadable(usable, _LOOKED_AT)
        number = sum(truth in unread for truth in usable)
        _must(2 * number <= len(usable),
              f"solution_column must hold what math_verify reads, got {min(unread, default='')!r}: "
              "name another column, or grade with reward_funcs='string'.")


def _check_hypotheses(args: BARLConfig, rows: list[dict[str, Any]]) -> None:
    """Refuse columns of hypotheses and their prior that are missing, or list nothing."""
    listing, weighing, size = args.hypotheses_column, args.prior_column, args.max_answer_chars
    for field, name in (("hypotheses_column", listing), ("prior_column", weighing)):
        is_there = name is None or name in rows[0]
        _must(is_there, f"{field} must name a column of train_dataset, got {name!r}: {[*rows[0]]}.")
    if listing is None:
        return
    pairs = [(row[listing], row.get(weighing or "")) for row in rows]
    lists = [given_hypotheses(*pair, max_chars=size) for pair in pairs]
    _must(2 * sum(one is None for one in lists) <= len(rows),
          f"hypotheses_column must hold lists of texts of at most {size} characters, got "
          f"{listing!r}, where most of the first {len(rows)} rows have none.")
    _must(2 * sum(one.is_prior_unusable for one in lists if one) <= len(rows),
          f"prior_column must hold a weight >= 0 for each text of {listing!r}, got {weighing!r}.")


def refuse_unusable_tokenizer(tokenizer: Any, dataset: Any) -> None:
    """Refuse a tokenizer that cannot end a completion, or write the data's messages as a prompt."""
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    _must(tokenizer.eos_token is not None,
          "processing_class must have an EOS token: set eos_token to the one that ends an answer.")
    first = [*islice(dataset, 1)] if isinstance(dataset, Dataset | IterableDataset) else []
    _must(tokenizer.chat_template is not None or not any(map(is_conversational, first)),
          "processing_class must have a chat_template for messages, or prompts must be texts.")


def answer_extractor_of(extractor: Any) -> Callable[[str], str | None] | None:
    """Return a user's extractor, which must return a text or None, or that of a grader's name."""
    if isinstance(extractor, str):
        return get_grader(extractor).extract_answer
    types = (str, type(None))
    return _checked("answer_extractor", extractor, lambda value: isinstance(value, types), "4")


def answer_equivalence_of(equivalence: Any) -> Callable[[str, str], bool] | None:
    """Return a user's equivalence, which must return a truth value, or that of a grader's name."""
    if isinstance(equivalence, str):
        return get_grader(equivalence).equivalent

    def is_truth_value(verdict: Any) -> bool:
        # NumPy and PyTorch have their own types of truth values
        kind = str(getattr(verdict, "dtype", type(verdict).__name__))
        return kind.removeprefix("torch.") == "bool"

    return _checked("answer_equivalence", equivalence, is_truth_value, "4", "4")


def _checked(argument: str, function: Any, is_right: Callable[[Any], bool], *example: str) -> Any:
    if function is None:
        return None

    def checked(*texts: str) -> Any:
        if is_right(value := function(*texts)):
            return value
        wanted = "a text or None" if len(texts) == 1 else "True or False"
        raise TypeError(f"{argument} must return {wanted}, got {value!r:.80}.")

    checked(*example)  # a mistake shows before a model is loaded
    return checked


def _logged_as(function: Any) -> str:
    """Return the name of a reward in TRL's log."""
    while isinstance(function, partial):
        function = function.func
    config = getattr(function, "config", None)  # of a reward model
    name = getattr(config, "_name_or_path", getattr(function, "__name__", type(function).__name__))
    return name.split("/")[-1]
