"""Checks of a user's functions: each is tried before the first step and checked on every call."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset, IterableDataset

from ...graders import get_grader
from ...hypotheses import GivenHypotheses, given_hypotheses, merge_hypotheses, truth_answer
from ..barl_config import BARLConfig
from ..rollouts.evidence import ENVIRONMENT_METHOD, Played, TaskFunctions, read_evidence
from .datasets import signature_of
from .settings import TASK_RULES, refuse_broken

_LOOKED_AT = 200
"""Number of first rows whose lists of hypotheses are checked."""


def answer_extractor_of(extractor: Any) -> Callable[[str], str | None] | None:
    """Return an answer extractor whose answers are checked on every call.

    Args:
        extractor: A user's function, completion -> its final answer or None; or the name of a
            grader, which stands for the grader's extraction; or None, which is returned.

    Raises:
        TypeError: For an example the function returns neither a text nor None. The returned
            extractor raises this, too.
        ValueError: There is no grader of that name.
    """
    if extractor is None or isinstance(extractor, str):
        return None if extractor is None else get_grader(extractor).extract_answer

    def extract(text: str) -> str | None:
        answer = extractor(text)
        if answer is None or isinstance(answer, str):
            return answer
        raise TypeError(
            f"answer_extractor must return a text, or None without an answer, got {answer!r:.80} "
            "for one completion: return its answer as a text."
        )

    extract(r"The answer is \boxed{4}.")  # a mistake shows before a model is loaded
    return extract


def answer_equivalence_of(equivalence: Any) -> Callable[[str, str], bool] | None:
    """Return an equivalence of answers whose verdicts are checked on every call.

    Args:
        equivalence: A user's function, two answers -> whether they are the same; or the name of a
            grader, which stands for the grader's verdict; or None, which is returned.

    Raises:
        TypeError: For an example the function does not return a truth value. The returned
            equivalence raises this, too.
        ValueError: There is no grader of that name.
    """
    if equivalence is None or isinstance(equivalence, str):
        return None if equivalence is None else get_grader(equivalence).equivalent

    def equivalent(a: str, b: str) -> bool:
        verdict = equivalence(a, b)
        # NumPy and PyTorch have their own types of truth values
        kind = getattr(verdict, "dtype", type(verdict).__name__)
        if str(kind).removeprefix("torch.") == "bool":
            return bool(verdict)
        raise TypeError(
            f"answer_equivalence must return True or False, got {verdict!r:.80} for two answers: "
            "return whether they are the same."
        )

    equivalent("4", "4")  # a mistake shows before a model is loaded
    return equivalent


def check_task_functions(
    args: BARLConfig,
    functions: TaskFunctions,
    rewards: Sequence[Any],
    train_dataset: Any,
    kwargs: dict[str, Any],
) -> None:
    """Refuse functions, columns and rewards from which no belief follows.

    Functions of text rollouts are tried on a made-up rollout: the first row, with an empty
    completion.

    Args:
        args: The settings.
        functions: The user's functions.
        rewards: The reward functions.
        train_dataset: The training set.
        kwargs: The trainer's other arguments.

    Raises:
        ValueError: A function does not take its arguments, returned something else than it must on
            the made-up rollout, or changes nothing; a column is missing, or lists nothing; or
            several rewards are no costs where one must be.
    """
    is_expected = args.credit == "bayes" or (
        args.credit == "belief_critic" and args.belief != "model"
    )
    factories = kwargs.get("environment_factory") or ()
    factories = [*factories.values()] if isinstance(factories, dict) else [factories]
    _check_use(args, functions, is_expected, factories)
    columns = args.hypotheses_column, args.prior_column
    if functions == TaskFunctions() and columns == (None, None) and not is_expected:
        return
    if is_expected:
        names = [_name(reward) for reward in rewards if not getattr(reward, "is_cost", False)]
        # each rollout gets the reward of its own environment
        names += [_name(one) for one in factories if hasattr(one, "get_reward")][:1]
        if len(names) > 1:
            raise ValueError(
                f"reward_funcs must have one reward that is no cost with credit={args.credit!r}, "
                f"got {names}: its expectation under the belief replaces it. Mark those that do "
                "not depend on what is true with barl_trl.rewards.cost. An environment's "
                "get_reward is none: write a function that takes `environments` in its place."
            )
    readable = train_dataset if isinstance(train_dataset, Dataset | IterableDataset) else ()
    first_rows = [*islice(readable, _LOOKED_AT)]
    if not first_rows:
        return
    given = _check_columns(args, first_rows)
    for name in ("observation_likelihood", "hypothesis_rewards"):
        function = getattr(functions, name)
        # a rollout_func may add columns
        if function is not None and kwargs.get("rollout_func") is None:
            row = first_rows[0]
            _check_signature(name, function, row, has_environments=bool(factories[0]))
    for factory in factories:
        if method := getattr(factory, ENVIRONMENT_METHOD, None):
            _bind(ENVIRONMENT_METHOD, method, ("self", "hypotheses", "steps"), {})
    if functions.outcome_under is not None:
        _bind("outcome_under", functions.outcome_under, ("answer", "hypothesis"), {})
    if not any(kwargs.get(name) for name in ("tools", "environment_factory", "rollout_func")):
        _try(args, functions, first_rows[0], given)


def _check_use(
    args: BARLConfig, functions: TaskFunctions, is_expected: bool, factories: list[Any]
) -> None:
    observes = functions.observation_likelihood
    refuse_broken(TASK_RULES, SimpleNamespace(belief=args.belief, observation_likelihood=observes))
    is_own = args.own_credit.function.__module__.startswith("barl_trl.")
    if functions.outcome_under is not None and is_own and not is_expected:
        raise ValueError(
            f"outcome_under must be None with credit={args.credit!r}, got a function: 'bayes' "
            "takes it, and 'belief_critic' with the task's belief."
        )
    if functions.hypothesis_rewards is not None and args.own_credit.hypotheses != "rollouts":
        raise ValueError(
            f"hypothesis_rewards must be None with credit={args.credit!r} and "
            f"belief={args.belief!r}, got a function: no belief over hypotheses takes it. "
            "belief='task' does."
        )
    tells = [functions.observation_likelihood, functions.hypothesis_rewards]
    tells += [getattr(factory, ENVIRONMENT_METHOD, None) for factory in factories]
    is_known = all(inspect.isclass(factory) for factory in factories if factory)
    if args.belief != "model" and is_known and not any(tells):
        warnings.warn(
            f"belief={args.belief!r} without observation_likelihood, hypothesis_rewards or an "
            f"environment with {ENVIRONMENT_METHOD}: nothing tells hypotheses apart but their "
            "prior.",
            stacklevel=5,
        )


def _check_columns(args: BARLConfig, rows: list[dict[str, Any]]) -> GivenHypotheses | None:
    """Refuse columns that are missing, or list nothing; return what the first row lists."""
    for field in ("hypotheses_column", "prior_column"):
        name = getattr(args, field)
        if name is not None and name not in rows[0]:
            raise ValueError(f"{field} must name a column of train_dataset, got {name!r}.")
    if args.hypotheses_column is None:
        return None
    lists = [
        given_hypotheses(
            row[args.hypotheses_column],
            None if args.prior_column is None else row[args.prior_column],
            max_chars=args.max_answer_chars,
        )
        for row in rows
    ]
    unusable = sum(one is None for one in lists)
    if 2 * unusable > len(lists):
        raise ValueError(
            "hypotheses_column must hold lists of texts of at most "
            f"max_answer_chars={args.max_answer_chars} characters, got {args.hypotheses_column!r}, "
            f"where {unusable} of the first {len(lists)} rows have none: name another column."
        )
    unusable = sum(one is not None and one.is_prior_unusable for one in lists)
    if 2 * unusable > len(lists):
        raise ValueError(
            "prior_column must hold a weight of at least 0 for each text of hypotheses_column, got "
            f"{args.prior_column!r}, where {unusable} of the first {len(lists)} rows do not: leave "
            "it out for equal weights."
        )
    return lists[0]


def _check_signature(
    name: str, function: Any, row: dict[str, Any], *, has_environments: bool
) -> None:
    others = {*row} - {"prompt", "completion", "completion_ids"}
    keywords = {"prompts", "completions", "hypotheses", "steps", *others}
    if has_environments:
        keywords.add("environments")
    _bind(name, function, (), dict.fromkeys(sorted(keywords)))


def _bind(name: str, function: Any, places: tuple[str, ...], keywords: dict[str, Any]) -> None:
    try:
        if signature := signature_of(function):
            signature.bind(*places, **keywords)
    except TypeError as error:
        raise ValueError(
            f"{name} must take the arguments {', '.join([*places, *keywords])}, got "
            f"{_name(function)}: {error}. **kwargs takes those that it does not use."
        ) from None


def _try(
    args: BARLConfig, functions: TaskFunctions, row: dict[str, Any], given: GivenHypotheses | None
) -> None:
    """Call the functions for the first row with an empty completion of one step."""
    truth = truth_answer(row.get(args.solution_column)) or None
    hypotheses = merge_hypotheses(
        truth, [None], equivalent=str.__eq__, given=given, is_closed=args.belief != "model"
    )
    is_text = isinstance(row["prompt"], str)
    columns = {name: [value] for name, value in row.items() if name not in ("prompt", "completion")}
    made_up = Played(
        [row["prompt"]],
        ["" if is_text else [{"role": "assistant", "content": ""}]],
        [[""]],
        columns,
    )
    try:
        read_evidence(
            functions._replace(outcome_under=None),
            made_up,
            [hypotheses],
            [None],
            uses_observations=args.belief != "model",
            is_first=True,
            num_steps=1,
            device=torch.device("cpu"),
        )
    except ValueError as error:
        if " must return " in str(error):
            raise
        raise _failed(functions, error) from error
    except Exception as error:
        raise _failed(functions, error) from error


def _failed(functions: TaskFunctions, error: Exception) -> ValueError:
    names = [name for name in TaskFunctions._fields[:2] if getattr(functions, name) is not None]
    return ValueError(
        f"{' and '.join(names)} must take any completion, also an empty one of one step, got "
        f"{error!r:.200}: a model may write anything."
    )


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)
