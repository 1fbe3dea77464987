"""From answers to hypotheses: the true answer of a row, equivalence, a group's hypothesis set.

Nothing here may stop or hang training, whatever a policy writes.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .graders import extract_answer as extract_answer
from .graders import verify
from .graders.normal_form import (
    MAX_TRUTH_CHARS,
    has_unseen_characters,
    is_balanced,
    without_frame,
)

_MOST_WITHOUT_ANSWER = 0.2
"""Share of a run's responses that may have no answer before the run says so."""

DROP_REASONS = (
    "no_answer",
    "empty",
    "unbalanced",
    "control_characters",
    "special_token",
    "too_long",
    "over_max_hypotheses",
)
"""Why a rollout has no hypothesis: all keys of [`HypothesisSet`]`.dropped`."""

_EXACT_FLOAT = 2**53  # from here on a float is no longer a certain integer
_EXACT_FLOAT_32 = 2**24
_MAX_DIGITS = 100


def plain_text(value: Any) -> str | None:
    """Return a cell as text: the float 27.0 as "27", a list of one item as that item.

    NumPy and PyTorch round numbers to 32 bits, so only whole numbers of theirs are certain.
    """
    if isinstance(value, list) and len(value) == 1:
        return plain_text(value[0])
    if isinstance(value, str):  # JSON may escape half of a surrogate pair
        return None if re.search("[\ud800-\udfff]", value) else value
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, Decimal) or (isinstance(value, float) and abs(value) < _EXACT_FLOAT):
        number = Decimal(str(value))
        if abs(number.adjusted()) > _MAX_DIGITS:  # 1e999999999 would fill the memory
            return str(number)
        whole = number.to_integral_value()
        return format(whole if number == whole else number, "f")
    if hasattr(value, "tolist"):  # a data set's format is "numpy" or "torch"
        array: Any = value
        item = array.tolist()
        while isinstance(item, list) and len(item) == 1:
            (item,) = item
        if isinstance(item, float) and not (item.is_integer() and abs(item) < _EXACT_FLOAT_32):
            return None
        return plain_text(item)
    return None


def truth_answer(value: Any) -> str:
    r"""Return the true answer from a cell of a data set's answer or solution column.

    It is the answer in the text's last box, else what follows the last `####` (GSM8K), else the
    whole text. An enclosing `$…$` is taken off, for a box is in math mode already, and line breaks,
    which TeX reads as spaces, become spaces.

    Args:
        value: A bare answer, or a worked solution with its answer in a box or after `####`: text,
            a number, or a list of one of them. Anything else has no answer.

    Returns:
        The answer; it may be empty or inadmissible (see [`why_inadmissible`]).

    Example:
        >>> truth_answer("She sells 9 eggs for 2 dollars each.\n#### 18"), truth_answer(r"$3\pi$")
        ('18', '3\\pi')
    """
    text = plain_text(value) or ""
    boxed = extract_answer(text)
    answer = text.rpartition("####")[2] if boxed is None else boxed
    return " ".join(line.strip() for line in without_frame(answer).split("\n"))


def answers_equivalent(a: str, b: str) -> bool:
    r"""Return whether `b` is the same answer as the true answer `a`, to the default grader.

    The relation is neither symmetric nor transitive. A comparison that takes more than 3 s of CPU
    time, or crashes, is a "no". Verdicts are remembered. Safe to call from any thread.

    Args:
        a: The true answer.
        b: The answer to judge.

    Returns:
        Whether they are equivalent; an answer without content is equivalent to nothing. For the
        reason see [`~barl_trl.graders.verify`].

    Raises:
        RuntimeError: If no process that compares can be started.

    Example:
        >>> answers_equivalent(r"\frac{1}{2}", "0.5"), answers_equivalent(r"3\pi", "3")
        (True, False)
    """
    return verify(a, b).correct


def why_inadmissible(
    answer: str, *, max_chars: int, special_tokens: Collection[str] = ()
) -> str | None:
    r"""Return why an answer may not become a hypothesis; None if it may.

    A hypothesis is put back after a state as `\boxed{…}.`, so it has to be one line of plain,
    balanced text.

    Args:
        answer: The answer.
        max_chars: Longest admissible answer in characters.
        special_tokens: Texts of the tokenizer's special tokens: tokenised again they would end or
            restart a turn.

    Returns:
        `"empty"`, `"unbalanced"`, `"control_characters"` (line breaks and invisible characters
        too), `"special_token"`, `"too_long"` or None; the first that applies.
    """
    if not answer.strip():
        return "empty"
    if not is_balanced(answer):
        return "unbalanced"
    if has_unseen_characters(answer):
        return "control_characters"
    if any(token in answer for token in special_tokens if token):
        return "special_token"
    return "too_long" if len(answer) > max_chars else None


def is_truth(answer: str) -> bool:
    """Return whether a true answer is usable: admissible, with at most 512 characters."""
    return why_inadmissible(answer, max_chars=MAX_TRUTH_CHARS) is None


@dataclass(frozen=True)
class HypothesisSet:
    """The hypotheses of one prompt, and which of its rollouts answered which.

    Attributes:
        answers: Answer of each hypothesis as it is scored. Index 0 is the ground truth.
        members: For each rollout of the group, the index of the hypothesis it answered; None if it
            answered none.
        dropped: Number of rollouts without a hypothesis, by reason: `"no_answer"`, a reason of
            [`why_inadmissible`], or `"over_max_hypotheses"`. Reasons that did not occur are absent.
    """

    answers: tuple[str, ...]
    members: tuple[int | None, ...]
    dropped: dict[str, int]


def merge_hypotheses(
    truth: str,
    rollout_answers: Sequence[str | None],
    *,
    equivalent: Callable[[str, str], bool],
    max_answer_chars: int = 64,
    max_hypotheses: int | None = None,
    special_tokens: Collection[str] = (),
) -> HypothesisSet | None:
    """Merge the answers of a prompt's rollouts with the true answer into a hypothesis set.

    The truth is representative 0. Each distinct answer joins the first representative that it
    matches both ways, else it becomes a new one: equivalence is not transitive, so a chain of
    near-equal answers may not join up. Short answers go first, so that the order of the rollouts
    does not matter. Hypotheses stand in rollout order. The form that is scored is the most frequent
    one of a hypothesis, the first seen on ties; the truth counts as one occurrence.

    Args:
        truth: The true answer, of at most 512 characters. It is exempt from `max_answer_chars`, and
            so are rollouts that repeat it.
        rollout_answers: Answer of each rollout in the group; None without one.
        equivalent: Whether the second answer is the same as the first, taken as true.
        max_answer_chars: Longest answer in characters that may become a hypothesis, >= 1.
        max_hypotheses: Most hypotheses, the truth included, >= 1. The least frequent ones are
            dropped, the last seen first.
        special_tokens: Texts that may not occur in an answer (see [`why_inadmissible`]).

    Returns:
        The hypotheses; with no admissible rollout answer the truth alone. None if the truth itself
        is inadmissible: there is nothing to score then.

    Raises:
        ValueError: If `max_answer_chars` or `max_hypotheses` is below 1.

    Example:
        >>> merge_hypotheses("0.5", ["1/2", "2", None, "1/2"], equivalent=answers_equivalent)
        HypothesisSet(answers=('1/2', '2'), members=(0, 1, None, 0), dropped={'no_answer': 1})
    """
    limits = {"max_answer_chars": max_answer_chars, "max_hypotheses": max_hypotheses}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise ValueError(
                f"{name} must be at least 1, got {limit}: the ground truth is always a hypothesis."
            )
    if why_inadmissible(truth, max_chars=MAX_TRUTH_CHARS, special_tokens=special_tokens):
        return None
    reasons = [
        "no_answer"
        if answer is None
        else None
        if answer == truth
        else why_inadmissible(answer, max_chars=max_answer_chars, special_tokens=special_tokens)
        for answer in rollout_answers
    ]
    admissible = [
        None if reason else answer for answer, reason in zip(rollout_answers, reasons, strict=True)
    ]
    counts = Counter([truth, *(answer for answer in admissible if answer is not None)])
    classes = _classes(counts, equivalent)
    kept = _most_frequent(classes, counts, max_hypotheses)
    index = {form: i for i, forms in enumerate(kept) for form in forms}
    members = tuple(None if answer is None else index.get(answer) for answer in admissible)
    dropped = Counter(reason for reason in reasons if reason)
    over = sum(answer is not None and answer not in index for answer in admissible)
    if over:
        dropped["over_max_hypotheses"] = over
    # max keeps the first of equals, and the forms are in the order in which they were seen.
    answers = tuple(max(forms, key=counts.__getitem__) for forms in kept)
    return HypothesisSet(answers=answers, members=members, dropped=dict(dropped))


def _classes(forms: Collection[str], equivalent: Callable[[str, str], bool]) -> list[list[str]]:
    """Group equivalent answers, the truth's group first; groups and forms stay in their order."""
    truth, *others = forms
    classes: dict[str, str] = {}  # form -> representative
    for form in (truth, *sorted(others, key=lambda form: (len(form), form))):
        representatives = dict.fromkeys(classes.values())
        match = (one for one in representatives if equivalent(one, form) and equivalent(form, one))
        classes[form] = next(match, form)
    groups: dict[str, list[str]] = {}
    for form in forms:
        groups.setdefault(classes[form], []).append(form)
    return [*groups.values()]


def _most_frequent(
    classes: list[list[str]], counts: Counter[str], most: int | None
) -> list[list[str]]:
    """Keep the truth's class and the most frequent others, in their order."""
    others = range(1, len(classes))
    by_frequency = sorted(others, key=lambda i: -sum(counts[form] for form in classes[i]))
    kept = by_frequency if most is None else by_frequency[: most - 1]
    return [classes[i] for i in [0, *sorted(kept)]]


def hypothesis_metrics(
    sets: Sequence[HypothesisSet | None], answers: Sequence[str | None]
) -> dict[str, float]:
    """Count what became of a rollout batch's answers, for the log.

    Args:
        sets: The hypothesis set of every group, `None` where the truth is unusable.
        answers: The answer of every rollout, `None` where it has none.

    Returns:
        `hypotheses_per_prompt`, and as shares `unusable_truths` (of the groups), `no_answer` and
        `dropped/<reason>` (of the rollouts).
    """
    usable = [hypotheses for hypotheses in sets if hypotheses]
    counts = [len(hypotheses.answers) for hypotheses in usable]
    metrics = {
        "hypotheses_per_prompt": sum(counts) / max(len(counts), 1),
        "unusable_truths": 1 - len(usable) / len(sets),
        "no_answer": sum(answer is None for answer in answers) / len(answers),
    }
    for reason in DROP_REASONS[1:]:
        dropped = sum(hypotheses.dropped.get(reason, 0) for hypotheses in usable)
        metrics[f"dropped/{reason}"] = dropped / len(answers)
    return metrics


def no_answer_advice(share: float) -> str | None:
    """Say that too many responses have no answer in a box, and what helps.

    Args:
        share: Share of a run's responses that have no answer, in [0, 1].
    """
    if share <= _MOST_WITHOUT_ANSWER:
        return None
    return (
        f"{100 * share:.0f} % of the responses have no answer: they do not box it, or were cut "
        'off. extraction="stated" also reads "the answer is 42" and the like (docs/graders.md).'
    )
