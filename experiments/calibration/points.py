"""Whether beliefs are right: plausibility and posterior beside what the model goes on to answer.

From every state of a response the model goes on several times. The plausibility of an answer should
be the share of continuations that end with it. The posterior of the truth should be the share that
end right.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata
from torch import nn

from barl_trl.evaluation.beliefs.response_values import believe, tokenized
from barl_trl.evaluation.responses import Response
from barl_trl.evaluation.statistics.metrics import Estimate, mean_and_standard_error
from barl_trl.graders import Grader
from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION
from barl_trl.steps import chain_of_thought, step_ends_of
from barl_trl.trainer.rollouts.hypothesis_scorer import HypothesisScorer

from ..sampling import continued_texts

ELICITATIONS = {
    "ours": DEFAULT_ELICITATION,
    "paper": "\nBased on the above reasoning, the answer is \\boxed",
    "short": "\nThe answer is \\boxed",
}
"""Texts that ask for an answer, by name. `turn` is another, made by [`next_turn`]."""

QUANTITIES = {
    "plausibility": "plausibility p_i(t) of an answer",
    "truth_mass": "posterior w_0(t) of the truth",
}
"""The two kinds of belief, by name: what each is in words."""

BINS = 10
"""Equal parts of [0, 1] that beliefs are sorted into."""

ROWS = 64
"""Continuations that are sampled together."""

QUESTION = "What is the final answer?"
"""What the next turn asks."""


class Point(NamedTuple):
    """What is believed of an answer at a state, and what comes of it.

    Attributes:
        quantity: A name of [`QUANTITIES`].
        problem_id: The problem.
        believed: The plausibility or posterior, in [0, 1].
        share: Share of continuations in which it comes true: what the belief should be.
    """

    quantity: str
    problem_id: int
    believed: float
    share: float


def next_turn(tokenizer: Any) -> str | None:
    """Return the text that ends the model's turn and asks in the next; None without a template."""
    if tokenizer.chat_template is None:
        return None
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "@@"}]
    asked = [*messages, {"role": "user", "content": QUESTION}]
    text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    return text.split("@@")[-1] + "The final answer is \\boxed"


def continued(
    model: nn.Module,
    scorer: HypothesisScorer,
    responses: Sequence[Response],
    *,
    number: int,
    max_tokens: int,
    generator: torch.Generator,
) -> dict[tuple[int, ...], list[str]]:
    """Let a model go on from every state of the responses to a problem.

    Args:
        model: The policy.
        scorer: Says what the states are.
        responses: The policy's responses to a problem.
        number: Continuations of a state.
        max_tokens: Most tokens of a response.
        generator: Source of the samples' draws, on the CPU.

    Returns:
        For each state, by its tokens, the texts of the responses that continue it.
    """
    states = {state: len(prompt) for prompt, state in _states(scorer, responses)}
    starts = [state for state in sorted(states, key=len) for _ in range(number)]
    texts = continued_texts(
        model,
        scorer.tokenizer,
        starts,
        [states[start] for start in starts],
        max_new_tokens=[max(1, max_tokens - len(start) + states[start]) for start in starts],
        rows=ROWS,
        end_ids={*scorer.end_ids} - {None},
        generator=generator,
    )
    texts_of: dict[tuple[int, ...], list[str]] = {state: [] for state in states}
    for start, text in zip(starts, texts, strict=True):
        texts_of[start].append(text)
    return texts_of


def _states(
    scorer: HypothesisScorer, responses: Sequence[Response]
) -> Iterable[tuple[list[int], tuple[int, ...]]]:
    """Yield the prompt's tokens and all tokens of each state, of one response after the other."""
    tokens = tokenized(scorer.tokenizer, responses)
    for prompt, completion in zip(tokens.prompt_ids, tokens.completion_ids, strict=True):
        ends = step_ends_of(chain_of_thought(completion, scorer.end_ids), scorer.step_segmenter)
        for end in (0, *ends):
            yield prompt, (*prompt, *completion[:end])


def points(
    model: nn.Module,
    scorer: HypothesisScorer,
    responses: Sequence[Response],
    texts: Mapping[tuple[int, ...], Sequence[str]],
    grader: Grader,
) -> list[Point]:
    """Set the beliefs at the states of the responses to a problem beside what comes of them.

    Args:
        model: The policy.
        scorer: Reads the policy's beliefs.
        responses: The policy's responses to a problem.
        texts: What [`continued`] returns.
        grader: Reads and judges the answers of the continuations.

    Returns:
        A point for every state and hypothesis, and for every state one of the truth. There are
        none if the solution is no usable truth.
    """
    believed = believe(model, scorer, responses)
    [hypotheses] = believed.scored.sets
    if hypotheses is None:
        return []
    rollouts = believed.rollouts
    logps, belief = rollouts.answer_logps, rollouts.belief
    keys = iter([key for _, key in _states(scorer, responses)])
    results, problem = [], responses[0].problem_id
    shares = {key: _shares(answers, hypotheses.answers, grader) for key, answers in texts.items()}
    for row, is_state in enumerate(rollouts.state_mask.tolist()):
        for t in range(sum(is_state)):
            share = shares[next(keys)]
            if row and not t:  # the prompt is one state of all responses
                continue
            plausible = logps[row, t].exp().tolist()
            pairs = zip(plausible, share, strict=False)
            results += [Point("plausibility", problem, p, s) for p, s in pairs]
            results.append(Point("truth_mass", problem, belief[row, t, 0].item(), share[0]))
    return results


def _shares(texts: Sequence[str], answers: Sequence[str], grader: Grader) -> list[float]:
    """Return the share of texts that end with each answer."""
    ends = [grader.extract_answer(text) for text in texts]
    verdicts = grader.verify_all({(a, end) for a in answers for end in ends if end is not None})
    return [
        fmean(end is not None and verdicts[answer, end].correct for end in ends)
        for answer in answers
    ]


def squared_error(believed: float, share: float, number: int) -> float:
    """Return an unbiased estimate of (belief - probability)^2, given a share of `number` samples.

    The variance of the share, estimated by share * (1 - share) / (number - 1), is taken off.
    """
    return (believed - share) ** 2 - share * (1 - share) / (number - 1)


def summary(of_quantity: Sequence[Point], number: int) -> dict[str, Any]:
    """Summarise the points of one quantity.

    Args:
        of_quantity: The points.
        number: Continuations of a state.

    Returns:
        `squared_error` with `standard_error` (over problems), `gap` (mean absolute difference of
        belief and share over bins of equal width, weighted by their points: the expected
        calibration error), `rank_correlation` of belief and share (None if one of them is
        constant), `num_points`, and `bins`: of each that is not empty `believed`, `share`, `number`
        and the share's `standard_error` (over problems).
    """
    bins: dict[int, list[Point]] = {}
    for point in of_quantity:
        bins.setdefault(min(int(point.believed * BINS), BINS - 1), []).append(point)
    rows = []
    for _, members in sorted(bins.items()):
        believed, share = fmean(p.believed for p in members), fmean(p.share for p in members)
        error = _by_problem(members, [p.share for p in members]).standard_error
        row = {"believed": believed, "share": share, "standard_error": error}
        rows.append(row | {"number": len(members)})
    errors = _by_problem(
        of_quantity, [squared_error(p.believed, p.share, number) for p in of_quantity]
    )
    gaps = (row["number"] * abs(row["believed"] - row["share"]) for row in rows)
    ranks = [rankdata([getattr(p, name) for p in of_quantity]) for name in ("believed", "share")]
    varies = all(np.ptp(rank) > 0 for rank in ranks)
    return {
        "squared_error": errors.mean,
        "standard_error": errors.standard_error,
        "gap": sum(gaps) / len(of_quantity),
        "rank_correlation": float(np.corrcoef(*ranks)[0, 1]) if varies else None,
        "num_points": len(of_quantity),
        "bins": rows,
    }


def _by_problem(members: Iterable[Point], numbers: Iterable[float]) -> Estimate:
    """Average numbers over the points of a problem, then over problems, which are independent."""
    groups: dict[int, list[float]] = {}
    for point, number in zip(members, numbers, strict=True):
        groups.setdefault(point.problem_id, []).append(number)
    return mean_and_standard_error([*map(fmean, groups.values())])
