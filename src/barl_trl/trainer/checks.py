"""Mistakes in arguments and data that would train wrongly in silence, or be told late."""

import inspect
import os
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from copy import deepcopy
from functools import partial, update_wrapper
from itertools import islice
from types import FunctionType, MethodType
from typing import Any

from accelerate import PartialState
from accelerate.utils import parse_flag_from_env
from datasets import Dataset, IterableDataset
from peft import PeftConfig, PeftModel
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin, TrainerCallback
from transformers.integrations import is_deepspeed_zero3_enabled
from transformers.trainer_utils import set_seed
from transformers.utils import get_json_schema
from transformers.utils.chat_template_utils import (
    DocstringParsingException,
    TypeHintParsingException,
)
from trl import is_conversational
from trl.trainer.utils import is_async_callable

from ..data import unreadable
from ..graders import Grader, get_grader
from ..hypotheses import given_hypotheses, is_truth, truth_answer
from ..rewards import AccuracyReward, resolve_rewards
from ..steps import step_ends_of
from .boundary import NO_TOOLS, guarded
from .config import BARLConfig
from .evidence import ENVIRONMENT_METHOD, TaskFunctions
from .turn_rewards import FIELD, METHOD, TurnReturn
from .turns import told_answer

_LOOKED_AT = 200  # first rows whose true answers and hypotheses are checked
# what TRL passes to reward functions, beside the columns
_OF_TRL = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}

# fmt: off
_DATA, _ROWS = Dataset | IterableDataset, Dataset | IterableDataset | list | tuple
_FUNCTION = Callable, (), (), "a function (only `barl train` takes its dotted path)"
_GRADER = Callable | str, (), (), "a function, or the name of a grader"
_KINDS: dict[str, tuple[Any, Any, Any, str]] = {
    "model": (str | os.PathLike | PreTrainedModel | PeftModel, (), (), "a model, its id or folder"),
    "args": (BARLConfig, (), (), "a BARLConfig"),
    "reward_funcs": (Callable | str, list | tuple, Callable | str, "functions or names of rewards"),
    "train_dataset": (_DATA, (), (), "a Dataset or IterableDataset, as Dataset.from_list(rows)"),
    "eval_dataset": (_ROWS, dict, _ROWS, "a Dataset or IterableDataset, or a dict of some"),
    "benchmarks": ((), Mapping, Dataset, "a dict of Datasets"),
    "processing_class": (PreTrainedTokenizerBase | ProcessorMixin, (), (), "a tokenizer"),
    "answer_extractor": _GRADER, "answer_equivalence": _GRADER, "step_segmenter": _FUNCTION,
    **dict.fromkeys(TaskFunctions._fields, _FUNCTION), "rollout_func": _FUNCTION,
    "turn_rewards": _FUNCTION, "state_key": _FUNCTION,
    "tools": ((), list, FunctionType | MethodType, "a list of functions"),
    "environment_factory": (Callable, dict, Callable, "a class or function that makes an "
                            "environment (Game, not Game()), or a dict of some"),
    "peft_config": (PeftConfig, (), (), "a PeftConfig, as LoraConfig(r=8)"),
    "callbacks": ((), list, TrainerCallback | type, "a list of callbacks"),
}
"""Argument -> what it may be, or a container and what may be in it, and what an error says."""


def check_kinds(arguments: dict[str, Any]) -> None:
    """Refuse arguments of [`BARLTrainer`] that are something else, by name, with a TypeError."""
    for name, (kinds, container, inside, rule) in _KINDS.items():
        value = arguments.get(name)
        is_left_out = value is None and name != "model"
        parts: Any = value.values() if isinstance(value, Mapping) else value
        are_parts = isinstance(value, container) and all(isinstance(one, inside) for one in parts)
        if not (is_left_out or are_parts or isinstance(value, kinds)):
            raise TypeError(f"{name} must be {rule}, got {_shown(value)}.")


def check_trainer_arguments(arguments: dict[str, Any]) -> list[Any]:
    """Return the rewards; refuse arguments of [`BARLTrainer`] by name, with a ValueError.

    What makes environments becomes a [`CheckedFactory`].
    """
    args, model, train_dataset = (arguments[name] for name in ("args", "model", "train_dataset"))
    args.check_credit_options()  # the credit may have been set since
    _must(train_dataset is not None,
          "train_dataset must be given, got None: the rollouts of a group share a row.")
    # with several turns, each is a step
    divided = ("step_segmenter", "tools", "environment_factory", "rollout_func")
    _warn_of_settings(args, have_fixed_steps=not any(map(arguments.get, divided)))
    _must(args.extraction == "boxed" or not arguments["answer_extractor"],
          f"extraction must be left at 'boxed' with an answer_extractor, got {args.extraction!r}.")
    if segmenter := arguments["step_segmenter"]:
        step_ends_of([0, 1, 2, 3], segmenter)
    peft_config = arguments.get("peft_config")
    adapters: Any = model.peft_config.values() if isinstance(model, PeftModel) else [peft_config]
    kinds = {adapter.peft_type.value for adapter in adapters if adapter is not None}
    _must(not args.gradient_checkpointing or not kinds & {"PREFIX_TUNING", "CARTRIDGE"},
          f"gradient_checkpointing must be False with {kinds}: it drops the cache of the prefix.")
    files = os.listdir(model) if not isinstance(model, nn.Module) and os.path.isdir(model) else ()
    _must("adapter_config.json" not in files or "config.json" in files,
          f"model must be whole, got the adapter {model}: merge it into its model, or give "
          "AutoPeftModelForCausalLM.from_pretrained(folder, is_trainable=True).")
    _check_agents(args, train_dataset, arguments)
    length: Any = args.max_completion_length
    given = arguments["reward_funcs"] or []
    rewards = resolve_rewards(given, args.extraction, max_completion_length=length)
    arguments["reward_funcs"] = rewards = rewards if isinstance(rewards, list) else [rewards]
    names = [_logged_as(reward) for reward in rewards if callable(reward)]
    _must(len({*names}) == len(names), f"reward_funcs must have names of their own, got {names}.")
    refuse_unusable_tokenizer(arguments["processing_class"], train_dataset)
    _check_task(args, arguments)
    sets = arguments["eval_dataset"]
    sets = sets if isinstance(sets, dict) else {"eval_dataset": sets}
    for name, dataset in {"train_dataset": train_dataset, **sets}.items():
        if isinstance(dataset, _DATA):
            _check_dataset(name, dataset, args, arguments)
    return rewards


def _shown(value: Any) -> str:
    """Return the beginning of a value in one line; those of tables and arrays have many."""
    return " ".join(reprlib.repr(value).split())[:80]


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
    _must(not args.use_vllm or args.vllm_mode != "server" or PartialState().num_processes == 1,
          f"vllm_mode must be 'colocate' with {name}: TRL would mix up the processes' rollouts.")
    is_fsdp = args.fsdp or parse_flag_from_env("ACCELERATE_USE_FSDP")
    _must(args.use_vllm or not (is_fsdp or is_deepspeed_zero3_enabled()),
          f"use_vllm must be True with {name} and ZeRO-3 or FSDP: processes would wait for others.")
    prompt = next(iter(train_dataset), {}).get("prompt")
    _must(not isinstance(prompt, str),
          f"train_dataset must have messages as prompts with {name}, got {prompt!r:.80}.")
    tool_schemas(keywords.get("tools") or ())
    set_seed(args.seed)  # as TRL does before it makes the first environment
    made = {key: CheckedFactory(one) for key, one in _factories(keywords).items()}
    if made:
        keywords["environment_factory"] = made.get(None, made)


def _factories(keywords: dict[str, Any]) -> dict[Any, Any]:
    """Return the factories of environments by name; one alone has None."""
    given = keywords.get("environment_factory") or {}
    return given if isinstance(given, dict) else {None: given}


def _environments(keywords: dict[str, Any]) -> list[Any]:
    return [factory.first for factory in _factories(keywords).values()]


def needs_no_outcome(keywords: dict[str, Any]) -> bool:
    """Return whether rewards of turns may be all rewards of a run with these arguments."""
    told = keywords.get("turn_rewards") or keywords.get("rollout_func")
    own = [hasattr(one, "get_reward") for one in _environments(keywords)]
    return bool(told) or (bool(own) and not any(own))


def _check_task(args: BARLConfig, keywords: dict[str, Any]) -> None:
    """Refuse functions of the task that change nothing, and rewards that they would replace."""
    credit, belief = args.credit, args.belief
    is_expected = args.own_credit.replaces_outcome
    is_own = args.own_credit.function.__module__.startswith("barl_trl.")
    observes, predicts = map(keywords.get, ("observation_likelihood", "hypothesis_rewards"))
    _must(observes is None or belief != "model",
          "belief must be 'task' or 'both' with observation_likelihood, got 'model'.")
    _must(not keywords.get("outcome_under") or is_expected or not is_own,
          f"outcome_under must be None with credit={credit!r}: 'bayes' takes it.")
    _must(keywords["state_key"] is None or args.own_credit.credit_baseline == "state",
          f"state_key must be None without credit_baseline='state', got {keywords['state_key']!r}.")
    _must(predicts is None or args.own_credit.hypotheses == "rollouts",
          f"hypothesis_rewards must be None with credit={credit!r} and belief={belief!r}.")
    environments, rewards = _environments(keywords), keywords["reward_funcs"]
    names = [_logged_as(reward) for reward in rewards if not getattr(reward, "is_cost", False)]
    # each rollout gets the reward of its own environment
    names += [type(one).__name__ for one in environments if hasattr(one, "get_reward")][:1]
    _must(not is_expected or len(names) <= 1,
          f"reward_funcs must have one that is no cost with credit={credit!r}, got {names}: its "
          "expectation replaces it. Mark others with barl_trl.rewards.cost.")
    tells = observes or predicts or any(hasattr(one, ENVIRONMENT_METHOD) for one in environments)
    tells = tells or keywords.get("rollout_func")  # it may tell of environments
    if belief != "model" and not tells:
        warnings.warn(f"belief={belief!r} without observation_likelihood, hypothesis_rewards or "
                      f"{ENVIRONMENT_METHOD}: only the prior tells hypotheses apart.", stacklevel=5)
    if credit == "bayes" and belief == "model":
        warnings.warn("credit='bayes' with the model's own belief was worse than RLOO, 7 against "
                      "21 % (docs/credit.md): take belief='task', or 'rloo'.", stacklevel=5)


def _check_dataset(name: str, dataset: Any, args: BARLConfig, keywords: dict[str, Any]) -> None:
    """Refuse a data set without prompts, or too small; only the first row of a stream is read."""
    first = next(iter(dataset), {})
    _must(columns := {*first}, f"{name} must have rows, got none.")
    images = {"image", "images"} & columns
    _must(not images, f"{name} must be text-only, got the column {images}: remove it.")
    _must("prompt" in columns, f"{name} must have the column 'prompt', got {sorted(columns)}: "
          "barl_trl.data.load_problems reads most data sets.")
    _must(isinstance(first["prompt"], str) or is_conversational(first),
          f"{name} must have texts or lists of messages as prompts, got {first['prompt']!r:.60}.")
    _must(isinstance(first["prompt"], str) or first["prompt"][-1]["role"] != "assistant",
          f"{name} must not end prompts with the assistant's message: it may hold the answer.")
    clashes = (_OF_TRL | {"environments", "rollout_answer"}) & columns
    _must(not clashes, f"{name} must have no column {clashes}: rewards get arguments of that name.")
    empty = _first_empty(dataset if isinstance(dataset, Dataset) else dataset.take(1))
    _must(empty is None, f"{name} must have a prompt in every row, got none in row {empty}.")
    if name == "train_dataset":
        prompts = int(args.generation_batch_size or 0) // (args.num_generations or 1)
        number = len(dataset) if isinstance(dataset, Dataset) else prompts
        _must(number >= prompts,
              f"{name} must have the {prompts} rows of a rollout batch, got {number}.")
        first_rows: list[Any] = [*islice(dataset, _LOOKED_AT)]
        fields = [f for f in ("hypotheses_column", "prior_column") if getattr(args, f) is not None]
        # environments, and a `rollout_func`, may tell the truth
        plays = keywords.get("environment_factory") or keywords.get("rollout_func")
        is_asked = args.credit_for(keywords["reward_funcs"]).needs_truth and not plays
        for field in [*fields, *["solution_column"] * is_asked]:
            column = getattr(args, field)
            _must(column in columns,
                  f"{field} must name a column of {name}, got {column!r}: {[*first]}.")
        _check_truths(args, first_rows, keywords)
        _check_hypotheses(args, first_rows)
    if keywords.get("rollout_func") is None:  # it may add columns
        _check_signatures(columns, args.solution_column, keywords)


def _first_empty(dataset: Dataset | IterableDataset) -> int | None:
    """Return the index of the first row whose prompt has no text, or a message without content."""
    tables: Any = dataset.select_columns("prompt").with_format("arrow").iter(1000)
    for row, prompt in enumerate(one for table in tables for one in table["prompt"].to_pylist()):
        parts = prompt if isinstance(prompt, list) else []
        contents = [one.get("content", "") if isinstance(one, dict) else one for one in parts]
        if not prompt or None in contents:
            return row
    return None


def _check_signatures(columns: set[str], solution: str, keywords: dict[str, Any]) -> None:
    """Refuse functions that do not take the arguments that they get."""
    environments = _environments(keywords)
    several = isinstance(keywords.get("environment_factory"), dict)
    row = columns - {"environment"} if several else columns  # it chooses one
    functions = [(f"{type(one).__name__}.{name}", partial(getattr(type(one), name), one), given)
                 for one in environments for name, given in (("reset", row), ("get_reward", set()))
                 if hasattr(type(one), name)]
    columns = columns - {"prompt", "completion"} | ({"environments"} if environments else set())
    told = {"rollout_answer"} if environments else set()
    to_rewards = columns | _OF_TRL | told
    functions += [("reward_funcs", one, to_rewards) for one in keywords["reward_funcs"]]
    of_task = columns | {"prompts", "completions", "hypotheses", "steps"}
    functions += [(name, keywords[name], of_task)
                  for name in ("observation_likelihood", "hypothesis_rewards")]
    to_turns = of_task - {"hypotheses"} | {"environments"}
    functions.append(("turn_rewards", keywords["turn_rewards"], to_turns))
    for argument, function, names in functions:
        try:
            if callable(function) and not isinstance(function, nn.Module):
                parameters = inspect.signature(function).parameters
                # environments may tell the truth, in place of the column
                names |= {solution} & {*parameters} if environments else set()
                inspect.signature(function).bind(**dict.fromkeys(names))
        except ValueError:  # some callables have no signature
            continue
        except TypeError as error:
            must, got = ", ".join(sorted(names)) or "nothing", _logged_as(function)
            raise ValueError(f"{argument} must take {must}, got {got}: {error}.") from None


def _check_truths(args: BARLConfig, rows: Sequence[Any], keywords: dict[str, Any]) -> None:
    """Refuse true answers that are missing, or that the grader does not read."""
    column, rewards = args.solution_column, keywords["reward_funcs"]
    if not args.credit_for(rewards).needs_truth or column not in rows[0]:
        return
    usable = [*filter(is_truth, (truth_answer(row[column]) for row in rows))]
    _must(2 * len(usable) >= len(rows),
          f"solution_column must hold true answers, got {column!r}, which has {len(usable)} usable "
          f"ones in the first {len(rows)} rows. `barl data check` lists the rows of a file.")
    graders = [one.grader.name for one in rewards if isinstance(one, AccuracyReward)]
    is_default = not graders and keywords.get("answer_equivalence") is None
    if is_default or "math_verify" in graders:
        unread = unreadable(usable, _LOOKED_AT)
        _must(2 * sum(truth in unread for truth in usable) <= len(usable),
              f"solution_column must hold what math_verify reads, got {min(unread, default='')!r}: "
              "name another column, or grade with reward_funcs='string'.")


def _check_hypotheses(args: BARLConfig, rows: list[dict[str, Any]]) -> None:
    """Refuse columns of hypotheses and their prior that list nothing."""
    listing, weighing, size = args.hypotheses_column, args.prior_column, args.max_answer_chars
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


def alone_in_launch() -> str | None:
    """Say that `accelerate launch` was asked for several processes, but started one."""
    # it sets the port for several, and starts them where it finds as many GPUs
    is_asked = {"ACCELERATE_USE_CPU", "MASTER_PORT"} <= os.environ.keys()
    text = ("accelerate launch was asked for several processes, but started one alone. On CPUs it "
            "needs a configuration: barl recipes cpu/ddp > cpu.yaml, and --config_file cpu.yaml.")
    return text if is_asked and PartialState().num_processes == 1 else None


def answer_extractor_of(extractor: Any) -> Callable[[str], str | None] | None:
    """Return a user's extractor, which must return a text or None, or that of a grader's name."""
    if isinstance(extractor, str):
        return get_grader(extractor).extract_answer
    return extractor and _checked("answer_extractor", extractor, "4")


def answer_equivalence_of(equivalence: Any) -> Callable[..., bool] | None:
    """Return a user's equivalence, which must return a truth value, or that of a grader's name.

    One with `**columns` gets those of the row, and `takes_columns`.
    """
    if isinstance(equivalence, str):
        return get_grader(equivalence).equivalent
    if equivalence is None or isinstance(getattr(equivalence, "__self__", None), Grader):
        return equivalence  # a grader compares in parallel
    parameters: Any = ()
    with suppress(TypeError, ValueError):  # some callables have no signature
        parameters = inspect.signature(equivalence).parameters.values()
    takes_columns = any(one.kind is one.VAR_KEYWORD for one in parameters)
    example = () if takes_columns else ("4", "4")  # the columns are not known yet
    checked = _checked("answer_equivalence", equivalence, *example)
    checked.takes_columns = takes_columns
    return checked


def _checked(argument: str, function: Any, *example: str) -> Any:
    is_extractor = argument == "answer_extractor"

    def checked(*texts: str, **columns: Any) -> Any:
        value = function(*texts, **columns)
        # NumPy and PyTorch have their own types of truth values
        is_bool = str(getattr(value, "dtype", type(value).__name__)).endswith("bool")
        if (value is None or isinstance(value, str)) if is_extractor else is_bool:
            return value
        wanted = "a text or None" if is_extractor else "True or False"
        raise TypeError(f"{argument} must return {wanted}, got {value!r:.80}.")

    if example:
        checked(*example)  # a mistake shows before a model is loaded
    return checked


def checked_reward(reward: Any, name: str) -> Any:
    """Return a reward function behind the boundary, which must return a number or None for each."""
    if isinstance(reward, nn.Module | TurnReturn):
        return reward
    reward = guarded(reward)

    def read(output: Any, prompts: Sequence[Any]) -> list[float | None]:
        try:
            values: Any = None if isinstance(output, Mapping | Set) else output  # no order
            pairs = zip(values, prompts, strict=True)
            return [None if one is None else float(one + 0.0) for one, _ in pairs]  # no texts
        except (TypeError, ValueError):
            raise ValueError(f"reward_funcs must return {len(prompts)} numbers, one for each "
                             f"completion, got {_shown(output)} from {name}.") from None

    async def wait(**columns: Any) -> list[float | None]:
        return read(await reward(**columns), columns["prompts"])

    def call(**columns: Any) -> list[float | None]:
        return read(reward(**columns), columns["prompts"])

    return update_wrapper(wait if is_async_callable(reward) else call, reward)


class CheckedFactory:
    """Make environments, the first at once: a mistake shows before a model is loaded.

    `reset` may count games, so that it is not called for a check. It gets copies of the row, from
    which the hypotheses and the rewards of the group are read, and what it leaves is checked.
    """

    def __init__(self, factory: Callable[[], Any]):
        self._factory, self._made = factory, []
        self.first = self._make()
        self._waiting = [self.first]
        tool_schemas((), self.first)

    def __call__(self) -> Any:
        """Return an environment."""
        return self._waiting.pop() if self._waiting else self._make()

    def _make(self) -> Any:
        made = self._factory()
        reset = getattr(type(made), "reset", None)
        is_right = inspect.isfunction(reset) and not inspect.iscoroutinefunction(reset)
        _must(is_right and hasattr(made, "__dict__"), "environment_factory must make objects with "
              f"a method reset, neither async nor with __slots__, got {made!r:.80}.")
        _must(all(made is not other for other in self._made),
              f"environment_factory must make one for each rollout, got {made!r:.80} twice.")
        self._made.append(made)
        vars(made)["reset"] = partial(_checked_reset, made, made.reset)
        return made


def _checked_reset(environment: Any, reset: Callable[..., Any], *values: Any, **row: Any) -> Any:
    """Call `reset` with copies; refuse what TRL cannot append to a prompt, and a given answer."""
    told, name = reset(*deepcopy(values), **deepcopy(row)), f"{type(environment).__name__}.reset"
    are_parts = isinstance(told, list) and all(isinstance(p, dict) and "text" in p for p in told)
    _must(are_parts or told is None or isinstance(told, str),
          f"{name} must return a text or None, got {told!r:.80}.")
    left = None
    with suppress(Exception):  # a property may have nothing to read yet
        left = getattr(told_answer(environment), "answer", None)
    rewards = () if hasattr(environment, METHOD) else getattr(environment, FIELD, ())
    _must(not hasattr(rewards, "__len__") or len(rewards) == 0,
          f"{name} must set {FIELD} to [], got {rewards!r:.80}: those of the game before.")
    done = getattr(environment, "done", False)
    _must(callable(done) or not done, f"{name} must set done to False, got {done!r:.80}.")
    _must(left is None, f"{name} must set answer to None, got {left!r:.80}: it is what the model "
          "answers in this game, neither in the one before, nor the true answer.")
    return told


def tool_schemas(tools: Sequence[Any], environment: Any = None) -> list[dict[str, Any]]:
    """Return what chat templates show of tools, and of an environment's public methods."""
    names = [name for name, _ in inspect.getmembers(type(environment), inspect.isfunction)]
    methods = [name for name in names if name[0] != "_" and name not in NO_TOOLS]
    schemas = []
    for tool in [*tools, *(getattr(environment, name) for name in methods)]:
        try:
            schemas.append(get_json_schema(tool))
        except (DocstringParsingException, TypeHintParsingException) as error:
            raise ValueError("tools must have types and a docstring, got "
                             f"{getattr(tool, '__qualname__', tool)} ({error}). Begin the name of "
                             "a method that is no tool with _.") from None
    return schemas


def _logged_as(function: Any) -> str:
    """Return the name of a reward in TRL's log."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    config = getattr(function, "config", None)  # of a reward model
    return getattr(config, "_name_or_path", name).split("/")[-1]
