"""The hypothesis set of a prompt: true answer, answers of its rollouts and given ones, merged."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..graders.normal_form import MAX_TRUTH_CHARS, normal_form
from ..graders.numbers import number
from .answers import why_inadmissible
from .given import GivenHypotheses

DROP_REASONS = (
    "no_answer",
    "empty",
    "unbalanced",
    "control_characters",
    "special_token",
    "too_long",
    "over_max_hypotheses",
    "not_given",
)
"""Why a rollout has no hypothesis: all keys of [`HypothesisSet`]`.dropped`."""

_MOST_COMPARED = 32
"""Longest closed list in which an answer is looked for by equivalence; in a longer one its normal
form must be found. A comparison may take a millisecond, and a policy may answer anything."""


@dataclass(frozen=True)
class HypothesisSet:
    """The hypotheses of one prompt, and which of its rollouts answered which.

    Attributes:
        answers: Answer of each hypothesis as it is scored. Index 0 is the ground truth, if the
            prompt has one.
        members: For each rollout of the group, the index of the hypothesis it answered; None if it
            answered none.
        dropped: Number of rollouts without a hypothesis, by reason: `"no_answer"`, a reason of
            [`why_inadmissible`], `"over_max_hypotheses"`, or `"not_given"` in the list of a task.
            Reasons that did not occur are absent.
        weights: Prior weight of each hypothesis; empty if all have the same.
        has_truth: Whether the prompt has a true answer.
        lists_truth: Whether the given hypotheses have the true answer; None if there are none.
    """

    answers: tuple[str, ...]
    members: tuple[int | None, ...]
    dropped: dict[str, int]
    weights: tuple[float, ...] = ()
    has_truth: bool = True
    lists_truth: bool | None = None


def merge_hypotheses(
    truth: str | None,
    rollout_answers: Sequence[str | None],
    *,
    equivalent: Callable[[str, str], bool],
    given: GivenHypotheses | None = None,
    is_closed: bool = False,
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

    Given hypotheses join them. A hypothesis that is not given has the mean weight of those that
    are. Without a truth and without given hypotheses the prior weights are the votes: the numbers
    of rollouts that gave each answer.

    With `is_closed` the given list is all there is, as in a task that says what may be true. Texts
    of the list are hypotheses of their own, and a rollout whose answer is not in it has none. In a
    list of more than 32 an answer is looked for by its normal form alone.

    Args:
        truth: The true answer, of at most 512 characters. It is exempt from `max_answer_chars`, and
            so are rollouts that repeat it. None: it is not known, and no hypothesis is special.
        rollout_answers: Answer of each rollout in the group; None without one.
        equivalent: Whether the second answer is the same as the first, taken as true.
        given: The hypotheses that the row lists.
        is_closed: Whether these are the only ones, with the truth.
        max_answer_chars: Longest answer in characters that may become a hypothesis, >= 1.
        max_hypotheses: Most hypotheses, the truth included, >= 1. The least frequent ones are
            dropped, the last seen first; of given ones those with the least weight.
        special_tokens: Texts that may not occur in an answer (see [`why_inadmissible`]).

    Returns:
        The hypotheses; with no admissible rollout answer the truth and the given ones alone. None
        if the truth itself is inadmissible, or there is no hypothesis: there is nothing to score
        then.

    Raises:
        ValueError: If `max_answer_chars` or `max_hypotheses` is below 1.

    Example:
        >>> merge_hypotheses("0.5", ["0.5", "2", None], equivalent=str.__eq__).answers
        ('0.5', '2')
    """
    limits = {"max_answer_chars": max_answer_chars, "max_hypotheses": max_hypotheses}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise ValueError(
                f"{name} must be at least 1, got {limit}: the ground truth is always a hypothesis."
            )
    if truth is not None and why_inadmissible(
        truth, max_chars=MAX_TRUTH_CHARS, special_tokens=special_tokens
    ):
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
    dropped = Counter(reason for reason in reasons if reason)
    if given is not None and is_closed:
        return _closed(truth, admissible, given, equivalent, max_hypotheses, dropped)
    listed = {} if given is None else given.weights
    truths = [] if truth is None else [truth]
    counts = Counter([*truths, *(answer for answer in admissible if answer is not None)])
    for text in listed:
        counts.setdefault(text, 0)
    if not counts:
        return None
    classes = _classes(
        counts,
        # the texts of a list are hypotheses of their own
        lambda a, b: not (a in listed and b in listed) and equivalent(a, b),
        truth,
    )
    kept = _most_frequent(classes, counts, max_hypotheses, is_first_kept=truth is not None)
    index = {form: i for i, forms in enumerate(kept) for form in forms}
    members = tuple(None if answer is None else index.get(answer) for answer in admissible)
    over = sum(answer is not None and answer not in index for answer in admissible)
    if over:
        dropped["over_max_hypotheses"] = over
    # max keeps the first of equals, and the forms are in the order in which they were seen.
    answers = tuple(max(forms, key=counts.__getitem__) for forms in kept)
    weights: tuple[float, ...] = ()
    if listed:
        mean = sum(listed.values()) / len(listed)
        sums = [sum(listed.get(form, 0.0) for form in forms) for forms in kept]
        weights = tuple(total or mean for total in sums)
    elif truth is None:
        weights = tuple(float(sum(counts[form] for form in forms)) for forms in kept)
    lists_truth = None
    if truth is not None and listed:
        lists_truth = any(form in listed for form in classes[0])
    return HypothesisSet(answers, members, dict(dropped), weights, truth is not None, lists_truth)


def _closed(
    truth: str | None,
    admissible: Sequence[str | None],
    given: GivenHypotheses,
    equivalent: Callable[[str, str], bool],
    max_hypotheses: int | None,
    dropped: Counter[str],
) -> HypothesisSet:
    """Return the hypotheses of a closed list, the truth first, and the rollouts that answer one."""
    weights = dict(given.weights)
    lists_truth = None
    if truth is not None:
        place = _place_in([*weights], truth, equivalent)
        lists_truth = place is not None
        first = [*weights][place] if place is not None else truth
        weight = weights.pop(first, sum(weights.values()) / len(weights))
        weights = {first: weight} | weights
    texts = [*weights]
    places = {
        answer: _place_in(texts, answer, equivalent)
        for answer in dict.fromkeys(admissible)
        if answer is not None
    }
    answered = [None if answer is None else places[answer] for answer in admissible]
    strangers = sum(
        answer is not None and place is None
        for answer, place in zip(admissible, answered, strict=True)
    )
    if strangers:
        dropped["not_given"] = strangers
    listed = texts
    if max_hypotheses is not None and len(texts) > max_hypotheses:
        is_first = truth is not None
        by_weight = sorted(texts[is_first:], key=lambda text: -weights[text])
        kept = {*texts[:is_first], *by_weight[: max_hypotheses - is_first]}
        texts = [text for text in texts if text in kept]
    index = {text: i for i, text in enumerate(texts)}
    members = tuple(None if place is None else index.get(listed[place]) for place in answered)
    over = sum(
        place is not None and member is None
        for place, member in zip(answered, members, strict=True)
    )
    if over:
        dropped["over_max_hypotheses"] = over
    return HypothesisSet(
        tuple(texts),
        members,
        dict(dropped),
        tuple(weights[text] for text in texts),
        truth is not None,
        lists_truth,
    )


def _place_in(
    texts: Sequence[str], answer: str, equivalent: Callable[[str, str], bool]
) -> int | None:
    """Return the place of an answer in a list: of its text, else of its normal form, else of the
    first that is equivalent, which in a long list is not looked for.
    """
    if answer in texts:
        return texts.index(answer)
    forms = [_exact_form(text) for text in texts]
    if (form := _exact_form(answer)) in forms:
        return forms.index(form)
    if len(texts) > _MOST_COMPARED:
        return None
    matches = (
        place
        for place, text in enumerate(texts)
        if equivalent(text, answer) and equivalent(answer, text)
    )
    return next(matches, None)


def _classes(
    forms: Collection[str], equivalent: Callable[[str, str], bool], truth: str | None
) -> list[list[str]]:
    """Group equivalent answers; groups and forms stay in their order, so the truth's is first."""
    classes: dict[str, str] = {}  # form -> representative
    for form in sorted(forms, key=lambda form: (form != truth, len(form), form)):
        representatives = dict.fromkeys(classes.values())
        match = (one for one in representatives if equivalent(one, form) and equivalent(form, one))
        classes[form] = next(match, form)
    groups: dict[str, list[str]] = {}
    for form in forms:
        groups.setdefault(classes[form], []).append(form)
    return [*groups.values()]


def _most_frequent(
    classes: list[list[str]], counts: Counter[str], most: int | None, *, is_first_kept: bool
) -> list[list[str]]:
    """Keep the most frequent classes, and the first one if it is the truth's, in their order."""
    frequency = [sum(counts[form] for form in forms) for forms in classes]
    places = sorted(
        range(len(classes)), key=lambda i: (not (is_first_kept and i == 0), -frequency[i])
    )
    return [classes[i] for i in sorted(places[:most])]


def hypothesis_metrics(
    sets: Sequence[HypothesisSet | None], answers: Sequence[str | None]
) -> dict[str, float]:
    """Count what became of a rollout batch's answers, for the log.

    Args:
        sets: The hypothesis set of every group, `None` where the truth is unusable.
        answers: The answer of every rollout, `None` where it has none.

    Returns:
        `hypotheses_per_prompt`, and as shares `unusable_truths` (of the groups), `no_answer` and
        `dropped/<reason>` (of the rollouts). `truth_not_given` is the share of the prompts with
        given hypotheses that lack the truth; it is absent without such prompts.
    """
    usable = [hypotheses for hypotheses in sets if hypotheses]
    counts = [len(hypotheses.answers) for hypotheses in usable]
    metrics = {
        "hypotheses_per_prompt": sum(counts) / max(len(counts), 1),
        "unusable_truths": 1 - len(usable) / len(sets),
        "no_answer": sum(answer is None for answer in answers) / len(answers),
    }
    lists_truth = [one.lists_truth for one in usable if one.lists_truth is not None]
    has_lists = lists_truth or any("not_given" in hypotheses.dropped for hypotheses in usable)
    for reason in DROP_REASONS[1:] if has_lists else DROP_REASONS[1:-1]:
        dropped = sum(hypotheses.dropped.get(reason, 0) for hypotheses in usable)
        metrics[f"dropped/{reason}"] = dropped / len(answers)
    if lists_truth:
        metrics["truth_not_given"] = 1 - sum(lists_truth) / len(lists_truth)
    return metrics


@lru_cache(8192)
def _exact_form(answer: str) -> Any:
    """Return the number that an answer is, else its normal form: equal ones are equal answers."""
    form = normal_form(answer)
    value = number(form)
    return form if value is None else value
