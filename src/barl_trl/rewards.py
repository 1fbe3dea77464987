r"""Outcome rewards in TRL's reward-function signature, and the names by which recipes use them.

[`accuracy_reward`] has the name of TRL's and is not the same: TRL parses the true answer as it
stands, and a parser given bare `3\pi` reads the number 3. On bare answers, which most data sets
have, it rewards 21 % (CollegeMath) to 76 % (MATH-500) of the correct completions. Here both sides
are boxed first.
"""

import copy
import difflib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from .credit.registry import import_path
from .graders import GRADERS, Grader, extract_answer, get_grader
from .graders.choices import chosen
from .graders.extraction import Extraction
from .hypotheses import is_truth, truth_answer

logger = logging.getLogger(__name__)

Completion = str | list[dict[str, Any]]
"""A completion: a text, or a list of messages."""

RewardFunc = Callable[..., Sequence[float | None]]
"""A reward function in TRL's signature: columns of rows -> a reward of each row, or None."""


class GivenAnswer(NamedTuple):
    """The answer that a rollout gave in another way than in its last message, None for none."""

    answer: str | None


def cost(reward_func: RewardFunc) -> RewardFunc:
    """Mark a reward function as a cost: what it returns does not depend on what is true.

    `credit="bayes"` replaces the reward by its expectation under the belief, and adds costs, such
    as a price for each question, as they are. To all other credits they are rewards as any other.

    Example:
        >>> @cost
        ... def price(environments, **kwargs):
        ...     return [-0.05 * environment.questions for environment in environments]
    """
    setattr(reward_func, "is_cost", True)  # noqa: B010
    return reward_func


class AccuracyReward:
    """Reward 1.0 for a completion whose answer is the true one to a grader, 0.0 for any other.

    A comparison that times out or crashes is "not correct". Their share of the completions is
    logged as `verification_failures`; the first batch with more than 2 % is warned of.
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
        lettered_options: Sequence[Sequence[str] | None] | None = None,
        log_extra: Callable[[str, list], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **kwargs: Any,
    ) -> list[float | None]:
        """Judge completions: texts, or lists of messages, of which the last one is judged.

        `solution` has the true answers: bare, in the last box of a text, or after `####`. The
        trainer gives `rollout_answer`, what environments or a `rollout_func` tell.
        `lettered_options` has the options of multiple choice, whose texts also answer; the true
        answer is a letter ([`chosen`][barl_trl.graders.choices.chosen]). TRL logs columns
        `"solution"`, `"answer"` and `"verdict"` (what decided). A completion whose true answer
        cannot be used gets None, which TRL leaves out.
        """
        pairs = self.pairs(completions, solution, rollout_answer, lettered_options)
        verdicts = self.grader.grade(pairs)
        failures = Counter(v.reason for v in verdicts if v is not None and v.is_failure)
        share = failures.total() / max(len(verdicts), 1)
        if share > 0.02 and not self._has_warned:
            self._has_warned = True
            text = "%s of the completions could not be judged and count as wrong: look at their "
            text += "answers (`log_completions=True`), or at what else runs on the machine"
            logger.warning(text, dict(failures))
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
        options: Sequence[Sequence[str] | None] | None = None,
    ) -> list[tuple[str | None, str | None]]:
        """Return the true answer of each completion, and its own; None where there is none."""
        truths = [truth if is_truth(truth) else None for truth in map(truth_answer, solution)]
        read = self.grader.extract_answer
        answers = rollout_answers(completions, read, rollout_answer, options)
        return [*zip(truths, answers, strict=True)]


accuracy_reward = AccuracyReward(get_grader("math_verify"), "accuracy_reward")
r"""Reward 1.0 for a completion whose answer the default grader finds correct, 0.0 for any other.

Example:
    >>> completions = [r"It is \boxed{0.5}.", r"It is \boxed{5}.", "It is 0.5."]
    >>> accuracy_reward(completions, [r"\frac{1}{2}"] * 3)
    [1.0, 0.0, 0.0]
"""


def format_reward(completions: Sequence[Completion], **kwargs: Any) -> list[float]:
    r"""Reward 1.0 for a completion whose last `\boxed{` or `\fbox{` is closed, 0.0 for any other.

    Example:
        >>> format_reward([r"\boxed{7}", [{"role": "assistant", "content": r"\boxed{7"}]])
        [1.0, 0.0]
    """
    return [float(extract_answer(_final_text(one)) is not None) for one in completions]


def get_reward_func(name: str, *, max_completion_length: int | None = 1024) -> RewardFunc:
    """Return the reward function with a name; a ValueError says that there is none.

    Args:
        name: `"accuracy_reward"` (the default grader's), `"math_verify"`, `"qwen"` or `"string"` (a
            grader's), `"format_reward"`, `"think_format_reward"` or
            `"get_soft_overlong_punishment"` (TRL's), or the dotted path of any callable, such as
            `"my_lib.rewards.my_reward"`, also in the working directory.
        max_completion_length: Tokens at which the soft overlong punishment is full; it begins at
            four fifths of them.
    """
    if name == "get_soft_overlong_punishment" and max_completion_length:
        punishment = resolve_name(f"trl.rewards.{name}")
        return punishment(max_completion_length, max_completion_length // 5)
    # TRL's other rewards of accuracy are left out: they read bare true answers as its first does
    if name == "think_format_reward":
        return resolve_name(f"trl.rewards.{name}")
    own: dict[str, Any] = {name: AccuracyReward(grader, name) for name, grader in GRADERS.items()}
    own |= {"accuracy_reward": accuracy_reward, "format_reward": format_reward}
    if name in own or "." in name:
        return own.get(name) or callable_at(name, "reward function")
    names = [*own, "think_format_reward", "get_soft_overlong_punishment"]
    near = difflib.get_close_matches(name, names, n=1) or names
    raise ValueError(
        f"reward function must be one of {', '.join(names)} or a dotted path, got {name!r}: did "
        f"you mean {near[0]!r}?"
    )


def callable_at(path: str, argument: str) -> Callable[..., Any]:
    """Import what a dotted path names and can be called; else a ValueError names the argument."""
    target = import_path(path, argument)
    if not callable(target):
        raise ValueError(f"{argument} must be a callable, got {path!r}: name another.")
    return target


def resolve_rewards(
    reward_funcs: Any, extraction: Extraction = "boxed", *, max_completion_length: int | None = 1024
) -> Any:
    """Return one or several reward functions with names replaced by what they name.

    A folder, or a name with a `/`, names a reward model, which TRL loads. `extraction` is how
    graders read answers; `"boxed"` leaves each grader its own way.
    """
    options: Any = {"max_completion_length": max_completion_length}
    if isinstance(reward_funcs, list | tuple):
        return [resolve_rewards(reward, extraction, **options) for reward in reward_funcs]
    is_text = isinstance(reward_funcs, str)
    if is_text and "/" not in reward_funcs and not Path(reward_funcs).is_dir():
        reward_funcs = get_reward_func(reward_funcs, **options)
    if isinstance(reward_funcs, AccuracyReward) and extraction != "boxed":
        reward_funcs = copy.copy(reward_funcs)
        reward_funcs.grader = reward_funcs.grader.with_extraction(extraction)
    return reward_funcs


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
    """Return the text of a last message; "" if it calls a tool, or is not the model's."""
    if isinstance(completion, str):
        return completion
    is_own = bool(completion) and completion[-1].get("role", "assistant") == "assistant"
    return completion_text(completion) if is_own and not calls_tool(completion) else ""


def rollout_answers(
    completions: Sequence[Completion],
    answer_extractor: Callable[[str], str | None],
    given: Sequence[GivenAnswer | None] | None = None,
    options: Sequence[Sequence[str] | None] | None = None,
) -> list[str | None]:
    """Return the answer that is given, else what the extractor reads in the last message.

    Where a rollout's problem has options, an answer that is one becomes its letter.
    """
    none: list[Any] = [None] * len(completions)
    told = zip(completions, given or none, options or none, strict=True)
    return [
        chosen(answer_extractor(_final_text(completion)) if other is None else other.answer, texts)
        for completion, other, texts in told
    ]
