"""From answers to hypotheses: the true answer of a row, equivalence, a group's hypothesis set.

Nothing here may stop or hang training, whatever a policy writes.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from .graders import Grader, Verdict, extract_answer, verify
from .graders.normal_form import (
    MAX_TRUTH_CHARS,
    has_unseen_characters,
    is_balanced,
    normal_form,
    without_frame,
)
from .graders.numbers import number

DROP_REASONS = (
    *("no_answer", "empty", "unbalanced", "control_characters", "special_token", "too_long"),
    *("over_max_hypotheses", "not_given"),
)
"""Why a rollout has no hypothesis: all keys of [`HypothesisSet`]`.dropped`."""

_MOST_COMPARED = 32
"""Longest closed list in which an answer is looked for by equivalence; in a longer one its normal
form must be found. A comparison may take a millisecond, and a policy may answer anything."""

_STATES_ANSWER = re.compile(r"\banswer\**\s*(?:is\b|:|=)|<answer>", re.IGNORECASE)
_JSON = re.compile(r"""\s*(?:\[\s*["{]|\{\s*")""")


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
    # from 2**53 on a float is no longer a certain integer
    if isinstance(value, Decimal) or (isinstance(value, float) and abs(value) < 2**53):
        decimal = Decimal(str(value))
        if abs(decimal.adjusted()) > 100:  # 1e999999999 would fill the memory
            return str(decimal)
        whole = decimal.to_integral_value()
        return format(whole if decimal == whole else decimal, "f")
    if hasattr(value, "squeeze"):  # a data set's format is "numpy" or "torch"
        array: Any = value
        item = array.squeeze().tolist()
        is_rounded = isinstance(item, float) and not (item.is_integer() and abs(item) < 2**24)
        return None if is_rounded else plain_text(item)
    return None


def parsed(cell: Any) -> Any:
    """Return the object, or list of texts or objects, that a text of JSON holds; else the cell."""
    if isinstance(cell, str) and _JSON.match(cell):
        with suppress(RecursionError, ValueError):
            return json.loads(cell)
    return cell


def truth_answer(value: Any) -> str:
    r"""Return the true answer from a cell of a data set's answer or solution column.

    It is the answer in the text's last box, else what follows the last `####` (GSM8K), there what
    "the answer is" states, else the whole text. An enclosing `$…$` is taken off, for a box is in
    math mode already, and line breaks become spaces. It may be empty or inadmissible (see
    [`why_inadmissible`]).

    Args:
        value: A text, a number, or a list of one of them, perhaps as JSON in a text. Anything else
            has no answer.

    Example:
        >>> truth_answer("She sells 9 eggs for 2 dollars each.\n#### 18"), truth_answer(r"$3\pi$")
        ('18', '3\\pi')
    """
    text = plain_text(parsed(value)) or ""
    answer = extract_answer(text)
    if answer is None:
        answer = text.rpartition("####")[2]
        if _STATES_ANSWER.search(answer):
            answer = extract_answer(answer, "stated") or answer
    return " ".join(line.strip() for line in without_frame(answer).split("\n"))


def answers_equivalent(a: str, b: str) -> bool:
    r"""Return whether `b` is the same answer as the true answer `a`, to the default grader.

    The relation is neither symmetric nor transitive, and nothing equals an answer without content.
    A comparison that takes more than 3 s of CPU time, or crashes, is a "no". Verdicts are
    remembered. Safe to call from any thread. [`~barl_trl.graders.verify`] tells the reason.

    Example:
        >>> answers_equivalent(r"\frac{1}{2}", "0.5"), answers_equivalent(r"3\pi", "3")
        (True, False)
    """
    return verify(a, b).correct


def why_inadmissible(
    answer: str, *, max_chars: int, special_tokens: Collection[str] = ()
) -> str | None:
    r"""Return why an answer may not become a hypothesis, one of [`DROP_REASONS`]; None if it may.

    A hypothesis is put back after a state as `\boxed{…}.`, so it has to be one line of plain,
    balanced text. The tokenizer's special tokens in it would end or restart a turn.
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
class GivenHypotheses:
    """The hypotheses that a row of a data set lists.

    Attributes:
        weights: Text of each hypothesis -> its prior weight, greater than 0.
        dropped: Number of texts that may not become hypotheses, by reason (see
            [`why_inadmissible`]; `"no_text"` for a cell that is none).
        is_prior_unusable: Whether the row has prior weights that cannot be used.
    """

    weights: Mapping[str, float]
    dropped: Mapping[str, int]
    is_prior_unusable: bool = False


def given_hypotheses(
    texts: Any, weights: Any = None, *, max_chars: int, special_tokens: Collection[str] = ()
) -> GivenHypotheses | None:
    """Read the hypotheses that a row lists, and their prior weights; None if it lists none.

    Equal texts are one hypothesis, whose weights add up. A hypothesis with the weight 0 is none.

    Args:
        texts: The row's list of texts or numbers. Anything else lists nothing.
        weights: The row's list of weights, one for each text, not negative and not all 0. None, or
            anything else, makes all weights 1.
        max_chars: Longest admissible text in characters.
        special_tokens: Texts that may not occur (see [`why_inadmissible`]).
    """
    texts = texts.tolist() if hasattr(texts, "tolist") else texts
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes):
        return None
    numbers = _weights(weights, len(texts))
    found, dropped, tokens = dict[str, float](), Counter[str](), frozenset(special_tokens)
    for cell, weight in zip(texts, numbers or [1.0] * len(texts), strict=True):
        text = (plain_text(cell) or "").strip()
        reason = _why_not_listed(text, max_chars=max_chars, special_tokens=tokens)
        if reason is not None:
            dropped["no_text" if plain_text(cell) is None else reason] += 1
        elif weight > 0:
            found[text] = found.get(text, 0.0) + weight
    is_unusable = weights is not None and numbers is None
    return GivenHypotheses(found, dict(dropped), is_unusable) if found else None


_why_not_listed = lru_cache(2**15)(why_inadmissible)  # many rows may list the same texts


def _weights(weights: Any, count: int) -> list[float] | None:
    """Return a row's prior weights; None if they are not weights of this number of hypotheses."""
    weights = weights.tolist() if hasattr(weights, "tolist") else weights
    are_weights = isinstance(weights, Sequence) and len(weights) == count
    are_weights = are_weights and all(isinstance(w, int | float) and w >= 0 for w in weights)
    return [*map(float, weights)] if are_weights and 0 < sum(weights) < math.inf else None


@dataclass(frozen=True)
class HypothesisSet:
    """The hypotheses of one prompt, and which of its rollouts answered which.

    Attributes:
        answers: Answer of each hypothesis as it is scored. Index 0 is the truth, if there is one.
        members: Index of the hypothesis that each rollout of the group answered; None for none.
        dropped: Number of rollouts without a hypothesis, by reason; reasons that did not occur are
            absent.
        weights: Prior weight of each hypothesis; empty if all have the same.
        has_truth: Whether the prompt has a true answer.
        lists_truth: Whether the given hypotheses have the true answer; None if there are none.
        uncompared: Number of rollouts whose answer was not compared with all others, because a
            comparison of it timed out. It joined no other answer since then.
    """

    answers: tuple[str, ...]
    members: tuple[int | None, ...]
    dropped: dict[str, int]
    weights: tuple[float, ...] = ()
    has_truth: bool = True
    lists_truth: bool | None = None
    uncompared: int = 0


class _Comparisons:
    """The comparisons of a group's answers, both ways. Two that stand `apart` are different.

    A grader compares one answer with others in parallel, and tells which comparison timed out. Then
    the longer of its two answers is `late`: it is not compared again, and equals no other.
    """

    def __init__(self, equivalent: Callable[[str, str], bool], apart: Collection[str] = ()):
        owner = getattr(equivalent, "__self__", None)
        self._grader = owner if isinstance(owner, Grader) else None
        self._equivalent: Any = self._grader.verify if self._grader else equivalent
        self._apart, self.late = apart, set[str]()

    def equal(self, one: str, others: Sequence[str]) -> list[str]:
        """Return those of the others that are the same answer."""
        if one in self._apart:
            others = [other for other in others if other not in self._apart]
        if self._grader and one not in self.late:
            self._grader.verify_all((one, other) for other in others if other not in self.late)
        return [other for other in others if self._is_equal(one, other)]

    def _is_equal(self, one: str, other: str) -> bool:
        for pair in ((one, other), (other, one)):
            verdict = not self.late & {*pair} and self._equivalent(*pair)
            if isinstance(verdict, Verdict) and verdict.is_failure:
                self.late.add(max(other, one, key=len))
            if not verdict:
                return False
        return True


def representatives(
    answers: Iterable[str],
    equivalent: Callable[[str, str], bool],
    *,
    first: str | None = None,
    apart: Collection[str] = (),
) -> tuple[dict[str, str], set[str]]:
    """Return the answer that each one stands for, the first that it matches both ways.

    Short answers come first, but for one that is the `first`. Two that stand `apart` are different.
    Also returned are the answers whose comparison timed out: they stand for themselves.
    """
    found, comparisons = dict[str, str](), _Comparisons(equivalent, apart)
    rest = sorted(answers, key=lambda answer: (answer != first, len(answer), answer))
    while rest:
        one, *rest = rest
        found |= dict.fromkeys((one, *comparisons.equal(one, rest)), one)
        rest = [answer for answer in rest if answer not in found]
    return found, comparisons.late


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
    matches both ways, else it becomes a new one: equivalence is not transitive. Short answers go
    first, so that the order of the rollouts does not matter. Hypotheses stand in rollout order.
    The most frequent form of one is scored, the first seen on ties; the truth counts once.

    Given hypotheses join them. A hypothesis that is not given has the mean weight of those that
    are. Without a truth and without given hypotheses the prior weights are the votes: the numbers
    of rollouts that gave each answer.

    With `is_closed` the given list is all there is. Its texts are hypotheses of their own, and a
    rollout whose answer is not in it has none. In a list of more than 32 an answer is looked for by
    its normal form alone.

    Args:
        truth: The true answer, of at most 512 characters. It is exempt from `max_answer_chars`, and
            so are rollouts that repeat it. None: it is not known, and no hypothesis is special.
        rollout_answers: Answer of each rollout in the group; None without one.
        equivalent: Whether the second answer is the same as the first, taken as true. That of a
            [`~barl_trl.graders.Grader`] compares in parallel, and no answer again that timed out.
        given: The hypotheses that the row lists.
        is_closed: Whether these are the only ones, with the truth.
        max_answer_chars: Most characters of a rollout's answer that becomes a hypothesis, >= 1.
        max_hypotheses: Most hypotheses, the truth included, >= 1. The least frequent ones are
            dropped, the last seen first; of given ones those with the least weight.
        special_tokens: Texts that may not occur in an answer (see [`why_inadmissible`]).

    Returns:
        The hypotheses; None if the truth is inadmissible, or there is no hypothesis.

    Example:
        >>> merge_hypotheses("0.5", ["0.5", "2", None], equivalent=str.__eq__).answers
        ('0.5', '2')
    """
    why_not = partial(why_inadmissible, special_tokens=special_tokens)
    if truth is not None and why_not(truth, max_chars=MAX_TRUTH_CHARS):
        return None
    dropped, admissible = Counter[str](), list[str | None]()
    for answer in rollout_answers:
        reason = "no_answer" if answer is None else None
        if answer is not None and answer != truth:
            reason = why_not(answer, max_chars=max_answer_chars)
        dropped.update([reason] if reason else ())
        admissible.append(None if reason else answer)
    listed: Mapping[str, float] = {} if given is None else given.weights
    counts = Counter(answer for answer in (truth, *admissible) if answer is not None)
    counts.update(dict.fromkeys(listed, 0))
    if not counts:
        return None
    # without a truth and a list the votes are the prior
    masses: Mapping[str, float] = listed or (counts if truth is None else {})
    mean, found = sum(masses.values()) / max(len(masses), 1), admissible
    if given is not None and is_closed:
        first, found, late = _closed(truth, admissible, [*listed], equivalent)
        frequency = masses = ({} if first is None else {first: mean}) | dict(listed)
        classes = [[text] for text in masses]
        if strangers := found.count(None) - admissible.count(None):
            dropped["not_given"] = strangers
    else:
        # the texts of a list are hypotheses of their own
        stands_for, late = representatives(counts, equivalent, first=truth, apart=listed)
        groups = defaultdict[str, list[str]](list)  # they and their forms stay in their order
        for form in counts:
            groups[stands_for[form]].append(form)
        frequency, classes = counts, [*groups.values()]
    kept = _most_frequent(classes, frequency, max_hypotheses, is_first_kept=truth is not None)
    # max keeps the first of equals, and the forms are in the order in which they were seen
    answers = tuple(max(forms, key=frequency.__getitem__) for forms in kept)
    sums = [sum(masses.get(form, 0.0) for form in forms) for forms in kept]
    weights = tuple(float(total) or mean for total in sums) if masses else ()
    is_known = truth is not None and listed
    lists_truth = any(form in listed for form in classes[0]) if is_known else None
    index: dict[str | None, int] = {form: i for i, forms in enumerate(kept) for form in forms}
    if over := sum(answer is not None and answer not in index for answer in found):
        dropped["over_max_hypotheses"] = over
    told = weights, truth is not None, lists_truth, sum(one in late for one in admissible)
    return HypothesisSet(answers, tuple(map(index.get, found)), dict(dropped), *told)


def _closed(
    truth: str | None, answers: Sequence[str | None], texts: list[str], equivalent: Any
) -> tuple[str | None, list[str | None], set[str]]:
    """Return what the truth and the answers are in a closed list, to which the truth belongs."""
    comparisons = _Comparisons(equivalent)
    first = truth and (_listed_as(truth, texts, comparisons) or truth)
    texts = [*dict.fromkeys(filter(None, (first, *texts)))]
    answered = filter(None, dict.fromkeys(answers))
    found = {answer: _listed_as(answer, texts, comparisons) for answer in answered}
    return first, [answer and found[answer] for answer in answers], comparisons.late


def _listed_as(answer: str, texts: Sequence[str], comparisons: _Comparisons) -> str | None:
    """Return the text of a list that is an answer: equal, of equal form, or else equivalent."""
    if answer in texts:
        return answer
    form = _exact_form(answer)
    same = next((text for text in texts if _exact_form(text) == form), None)
    near = texts if same is None and len(texts) <= _MOST_COMPARED else ()
    return next((text for text in near if comparisons.equal(text, [answer])), same)


@lru_cache(8192)
def _exact_form(answer: str) -> Any:
    """Return the number that an answer is, else its normal form: equal ones are equal answers."""
    form = normal_form(answer)
    value = number(form)
    return form if value is None else value


def _most_frequent(
    classes: list[list[str]], counts: Mapping[str, float], most: int | None, *, is_first_kept: bool
) -> list[list[str]]:
    """Keep the most frequent classes, and the first one if it is the truth's, in their order."""
    frequency = [sum(counts[form] for form in forms) for forms in classes]
    frequency[:1] = [math.inf] if is_first_kept else frequency[:1]
    places = sorted(range(len(classes)), key=lambda i: -frequency[i])
    return [classes[i] for i in sorted(places[:most])]


def hypothesis_metrics(
    sets: Sequence[HypothesisSet | None], answers: Sequence[str | None]
) -> dict[str, float]:
    """Count, for the log, what became of the answers of a rollout batch.

    `unusable_truths` and `truth_not_given` (the given hypotheses lack it) are shares of the groups,
    `no_answer`, `dropped/<reason>` and `uncompared`, which is absent if it is 0, of the rollouts.
    """
    usable = [hypotheses for hypotheses in sets if hypotheses]
    number = sum(len(hypotheses.answers) for hypotheses in usable)
    metrics = {
        "hypotheses_per_prompt": number / max(len(usable), 1),
        "unusable_truths": 1 - len(usable) / len(sets),
        "no_answer": sum(answer is None for answer in answers) / len(answers),
    }
    lists_truth = [one.lists_truth for one in usable if one.lists_truth is not None]
    dropped = sum((Counter(hypotheses.dropped) for hypotheses in usable), Counter[str]())
    has_lists = lists_truth or "not_given" in dropped
    for reason in DROP_REASONS[1:] if has_lists else DROP_REASONS[1:-1]:
        metrics[f"dropped/{reason}"] = dropped[reason] / len(answers)
    if lists_truth:
        metrics["truth_not_given"] = 1 - sum(lists_truth) / len(lists_truth)
    if uncompared := sum(one.uncompared for one in usable):
        metrics["uncompared"] = uncompared / len(answers)
    return metrics


def given_metrics(given: Sequence[GivenHypotheses | None]) -> dict[str, float]:
    """Count, for the log, what became of what each prompt lists.

    `unusable_lists` and `unusable_priors` are shares of the prompts, `dropped/given_<reason>`
    numbers of texts for each prompt; reasons that did not occur are absent.
    """
    count = max(len(given), 1)
    usable = [one for one in given if one is not None]
    dropped = sum((Counter(one.dropped) for one in usable), Counter[str]())
    return {
        "unusable_lists": (len(given) - len(usable)) / count,
        "unusable_priors": sum(one.is_prior_unusable for one in usable) / count,
        **{f"dropped/given_{reason}": texts / count for reason, texts in dropped.items()},
    }


def no_answer_advice(share: float, cut_off: float, limit: str, malformed: float = 0) -> str | None:
    """Say that more than a fifth of the responses have no answer, and what helps; None if not.

    `cut_off` is the share that was cut off before it had one, by the setting `limit`; `malformed`
    the share whose last turn looks like a call that cannot be read.
    """
    if share <= 0.2:
        return None
    why = f"{100 * cut_off:.0f} % were cut off before they had one. Raise {limit}."
    if cut_off < share / 2:
        why = 'they do not box it. extraction="stated" also reads "the answer is 42" and the like.'
    if malformed >= share / 2:
        why = f"{100 * malformed:.0f} % end in a call that cannot be read (barl/malformed_calls): "
        why += "train the model to write calls first."
    return f"{100 * share:.0f} % of the responses have no answer: {why}"
