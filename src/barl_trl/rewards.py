r"""Outcome rewards in TRL's reward-function signature, and the names by which recipes use them.

[`accuracy_reward`] has the name of TRL's and is not the same: TRL parses the true answer as it
stands, and a parser given bare `3\pi` reads the number 3. On bare answers, which most data sets
have, it rewards 21 % (CollegeMath) to 76 % (MATH-500) of the correct completions. Here both sides
are boxed first.
"""

import copy
import difflib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from .graders import GRADERS, Grader, extract_answer, get_grader
from .graders.extraction import Extraction
from .hypotheses import is_truth, truth_answer

logger = logging.getLogger(__name__)

_FAILURES_WARNED_OF = 0.02
"""Share of a batch's comparisons that may fail without a warning."""

Completion = str | list[dict[str, Any]]
"""A completion: a text, or a list of messages."""

RewardFunc = Callable[..., Sequence[float | None]]
"""A reward function in TRL's signature: columns of rows -> a reward of each row, or None."""


class GivenAnswer(NamedTuple):
    """The answer that a rollout gave in another way than in its last message."""

    answer: str | None
    """The answer; None if the rollout gave none."""


def cost(reward_func: RewardFunc) -> RewardFunc:
    """Mark a reward function as a cost: what it returns does not depend on what is true.

    `credit="bayes"` replaces the reward by its expectation under the belief, and adds costs as they
    are. To all other credits they are rewards as any other.

    Args:
        reward_func: The function, such as a price for each question. It is changed, and returned.

    Raises:
        TypeError: It is no function.

    Example:
        >>> @cost
        ... def price(environments, **kwargs):
        ...     return [-0.05 * environment.questions for environment in environments]
    """
    if not callable(reward_func):
        raise TypeError(f"cost must mark a reward function, got {reward_func!r:.80}.")
    setattr(reward_func, "is_cost", True)  # noqa: B010
    return reward_func


class AccuracyReward:
    """Reward 1.0 for a completion whose answer is the true one, 0.0 for any other.

    A comparison that times out or crashes is "not correct". Their share of the batch's completions
    is logged as `verification_failures`; the first batch with more than 2 % of them is warned of.

    Args:
        grader: How answers are found and judged (see [`~barl_trl.graders.get_grader`]).
        name: The name under which the reward is logged.
    """

    def __init__(self, grader: Grader, name: str):
        self.grader = grader
        self.__name__ = name
        self._has_warned = False

    def __call__(
        self,
        completions: Sequence[Completion],
        solution: Sequence[str],
        rollout_answer: Sequence[GivenAnswer | None] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **kwargs: Any,
    ) -> list[float | None]:
        """Judge completions.

        Args:
            completions: Completions: texts, or lists of messages, of which the last one is judged.
            solution: The true answer of each completion's problem: bare, in the last box of a text,
                or after `####`.
            rollout_answer: The answer that an environment or a `rollout_func` tells of each
                rollout; None where the completion tells it. The trainer provides it.
            log_extra: Logs extra columns to the completions table: `"solution"` (the true answer),
                `"answer"` and `"verdict"` (what decided). The trainer provides it.
            log_metric: Logs the share of comparisons that failed. The trainer provides it.
            **kwargs: The other columns of the data set, which are not used.

        Returns:
            1.0 or 0.0 for each completion; None, which TRL leaves out of the sum, where the true
            answer is empty, unbalanced, longer than 512 characters or has control characters.

        Raises:
            ValueError: If there are not as many solutions as completions.
        """
        if len(solution) != len(completions):
            raise ValueError(
                f"solution must have one entry per completion, got {len(solution)} for "
                f"{len(completions)} completions: pass the `solution` column of the same rows."
            )
        pairs = self.pairs(completions, solution, rollout_answer)
        verdicts = self.grader.grade(pairs)
        failures = Counter(v.reason for v in verdicts if v is not None and v.is_failure)
        share = failures.total() / max(len(verdicts), 1)
        if share > _FAILURES_WARNED_OF and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%d of %d completions could not be judged (%s) and count as wrong: look at their "
                "answers (`log_completions=True`), or at what else runs on the machine",
                failures.total(),
                len(verdicts),
                ", ".join(f"{reason}: {number}" for reason, number in failures.items()),
            )
        if log_metric is not None:
            log_metric("verification_failures", share)
        if log_extra is not None:
            log_extra("solution", ["[none]" if truth is None else truth for truth, _ in pairs])
            log_extra("answer", ["[none]" if answer is None else answer for _, answer in pairs])
            log_extra("verdict", ["no truth" if v is None else v.reason for v in verdicts])
        return [None if verdict is None else float(verdict.correct) for verdict in verdicts]

    def pairs(
        self,
        completions: Sequence[Completion],
        solution: Sequence[str],
        rollout_answer: Sequence[GivenAnswer | None] | None = None,
    ) -> list[tuple[str | None, str | None]]:
        """Return the true answer of each completion, and its own; None where there is none."""
        truths = [truth_answer(text) for text in solution]
        answers = rollout_answers(completions, self.grader.extract_answer, rollout_answer)
        return [
            (truth if is_truth(truth) else None, answer)
            for truth, answer in zip(truths, answers, strict=True)
        ]


accuracy_reward = AccuracyReward(get_grader("math_verify"), "accuracy_reward")
r"""Reward 1.0 for a completion whose answer the default grader finds correct, 0.0 for any other.

Example:
    >>> completions = [r"It is \boxed{0.5}.", r"It is \boxed{5}.", "It is 0.5."]
    >>> accuracy_reward(completions, [r"\frac{1}{2}"] * 3)
    [1.0, 0.0, 0.0]
"""


def resolve_rewards(
    reward_funcs: Any, extraction: Extraction = "boxed", *, max_completion_length: int | None = 1024
) -> Any:
    """Return reward functions with names replaced by what they name, all else as it is.

    A folder, or a name with a `/`, names a reward model, which TRL loads.

    Args:
        reward_funcs: A reward function or its name, or a list or tuple of them, which becomes a
            list.
        extraction: How graders read answers. `"boxed"` leaves each grader its own way.
        max_completion_length: Tokens at which the soft overlong punishment is full.

    Raises:
        ValueError: There is no function of that name, or a grader does not take that extraction.
    """
    if isinstance(reward_funcs, list | tuple):
        options: Any = {"max_completion_length": max_completion_length}
        return [resolve_rewards(reward, extraction, **options) for reward in reward_funcs]
    if (
        isinstance(reward_funcs, str)
        and "/" not in reward_funcs
        and not Path(reward_funcs).is_dir()
    ):
        reward_funcs = get_reward_func(reward_funcs, max_completion_length=max_completion_length)
    if isinstance(reward_funcs, AccuracyReward) and extraction != "boxed":
        reward_funcs = copy.copy(reward_funcs)
        reward_funcs.grader = reward_funcs.grader.with_extraction(extraction)
    return reward_funcs


def format_reward(completions: Sequence[Completion], **kwargs: Any) -> list[float]:
    r"""Reward 1.0 for a completion whose last `\boxed{` or `\fbox{` is closed, 0.0 for any other.

    Args:
        completions: Completions: texts, or lists of messages, of which the last one is judged.
        **kwargs: The columns of the data set, which are not used.

    Returns:
        1.0 or 0.0 for each completion.

    Example:
        >>> format_reward([r"\boxed{7}", [{"role": "assistant", "content": r"\boxed{7"}]])
        [1.0, 0.0]
    """
    return [
        float(extract_answer(_final_text(completion)) is not None) for completion in completions
    ]


def get_reward_func(name: str, *, max_completion_length: int | None = 1024) -> RewardFunc:
    """Return the reward function with a name.

    Args:
        name: `"accuracy_reward"` (the default grader's), `"math_verify"`, `"qwen"` or `"string"` (a
            grader's), `"format_reward"`, `"think_format_reward"` or
            `"get_soft_overlong_punishment"` (TRL's), or the dotted path of any callable, such as
            `"my_lib.rewards.my_reward"`, also in the working directory.
        max_completion_length: Tokens at which the soft overlong punishment is full; it begins at
            four fifths of them.

    Returns:
        The reward function.

    Raises:
        ValueError: If there is no function of that name, or it cannot be imported or called.
    """
    if name in _REGISTRY:
        return _REGISTRY[name](max_completion_length)
    refuse_unknown_reward(name)
    return callable_at(name, "reward function")


def refuse_unknown_reward(name: str) -> None:
    """Refuse a name that is neither a reward function's nor a dotted path; nothing is imported."""
    is_path = "." in name and all(part.isidentifier() for part in name.split("."))
    if name not in _REGISTRY and not is_path:
        raise _unknown(name, "be a known name or a dotted path")


def refuse_no_path(path: str, argument: str) -> None:
    """Refuse a text that is no dotted path; nothing is imported.

    Raises:
        ValueError: It is none.
    """
    if "." not in path or not all(part.isidentifier() for part in path.split(".")):
        raise ValueError(
            f"{argument} must be the dotted path of a callable, got {path!r}: name it as "
            "my_module.my_function, with my_module.py in the working directory or installed."
        )


def callable_at(path: str, argument: str) -> Callable[..., Any]:
    """Import the callable at a dotted path, also from the working directory.

    Args:
        path: The path, such as `my_module.my_function`.
        argument: What an error message calls it.

    Raises:
        ValueError: There is none.
    """
    refuse_no_path(path, argument)
    # A console script, unlike `python -m`, does not have the working directory on its path. It is
    # put at the end, because it must not shadow an installed package. It stays there, because it
    # also has what a function imports when it is called, or in processes of its own.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    module_name, _, name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise ValueError(
            f"{argument} must be importable, got {path!r} ({error}): put its module beside the "
            "script, or on PYTHONPATH."
        ) from None
    target = getattr(module, name, None)  # not vars(): TRL's modules load their names lazily
    if not callable(target):
        others = [key for key in vars(module) if key[0] != "_" and callable(vars(module)[key])]
        near = difflib.get_close_matches(name, others or dir(module), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "name another."
        raise ValueError(f"{argument} must be a callable in {module_name}, got {path!r}: {hint}")
    return target


def completion_text(completion: Completion) -> str:
    """Return the text of a completion: the text parts of its last message."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else None
    if content is None or isinstance(content, str):
        return content or ""  # a call of a tool has no content
    return "".join(part.get("text") or "" for part in content)


def calls_tool(completion: Completion) -> bool:
    """Return whether a completion ends with a message that calls a tool."""
    return bool(not isinstance(completion, str) and completion and completion[-1].get("tool_calls"))


def _final_text(completion: Completion) -> str:
    """Return the text from which a completion's answer is read.

    It is that of its last message; "" if that calls a tool, or is not the model's.
    """
    if isinstance(completion, str):
        return completion
    is_own = bool(completion) and completion[-1].get("role", "assistant") == "assistant"
    return completion_text(completion) if is_own and not calls_tool(completion) else ""


def rollout_answers(
    completions: Sequence[Completion],
    answer_extractor: Callable[[str], str | None],
    given: Sequence[GivenAnswer | None] | None = None,
) -> list[str | None]:
    """Return the answer of each rollout; None without one.

    Args:
        completions: The completions.
        answer_extractor: Text of a last message -> its answer.
        given: The answers that environments or a `rollout_func` tell; None where they tell none.
    """
    told = given or [None] * len(completions)
    return [
        answer_extractor(_final_text(completion)) if other is None else other.answer
        for completion, other in zip(completions, told, strict=True)
    ]


def _soft_overlong_punishment(max_completion_length: int | None) -> RewardFunc:
    if max_completion_length is None:
        raise ValueError(
            "max_completion_length must be set with the reward get_soft_overlong_punishment, got "
            "None: the default is 1024."
        )
    punishment = resolve_name("trl.rewards.get_soft_overlong_punishment")
    return punishment(max_completion_length, max_completion_length // 5)


# TRL's `reasoning_accuracy_reward` and cosine-scaled reward are left out: they read bare true
# answers as its `accuracy_reward` does. With boxed true answers they can still be named by their
# dotted paths.
_REGISTRY: dict[str, Callable[[int | None], RewardFunc]] = {
    "accuracy_reward": lambda _: accuracy_reward,
    **{name: lambda _, name=name: AccuracyReward(GRADERS[name], name) for name in GRADERS},
    "format_reward": lambda _: format_reward,
    "think_format_reward": lambda _: resolve_name("trl.rewards.think_format_reward"),
    "get_soft_overlong_punishment": _soft_overlong_punishment,
}


def _unknown(name: str, rule: str) -> ValueError:
    """Return the error for a name that breaks a rule, with the nearest known names."""
    nearest = difflib.get_close_matches(name, _REGISTRY, n=3, cutoff=0.5) or sorted(_REGISTRY)
    return ValueError(
        f"reward function must {rule}, got {name!r}: did you mean one of {', '.join(nearest)}?"
    )
