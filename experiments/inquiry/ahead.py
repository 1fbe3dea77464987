r"""Looking ahead: credits that know what else might have been replied to a question.

They average over the replies, and so leave out the luck of the one that came, as the first term of
the Bayes return leaves out the luck of the secret. See PLAN-long.md.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from barl_trl.credit.bayes import belief_entropy, expected_outcomes
from barl_trl.credit.belief_critic import belief_features, fitted_critic
from barl_trl.credit.registry import Credit
from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.posterior import StepValues

from .environments import InquiryEnvironment, questions_and_replies
from .inquiry import Inquiry


class Asked(NamedTuple):
    """What a batch of rollouts asked."""

    inquiry: Inquiry
    """The game, as the belief takes it."""
    hypotheses: Sequence[Sequence[str]]
    """Those of each rollout, in the order in which the belief has them."""
    questions: Sequence[Sequence[str | None]]
    """Question of each step of each rollout; None where it asks nothing. Of several in one turn the
    first one counts."""


_last: list[Asked] = []
"""What the last batch asked: a credit gets no texts."""


def observation_likelihood(
    hypotheses: Sequence[Sequence[str]],
    steps: Sequence[Sequence[Any]],
    environments: Sequence[InquiryEnvironment],
    **columns: Any,
) -> list[NDArray[np.float64]]:
    """Return what the environments say of the replies, and keep the questions for the credit."""
    _last[:] = [Asked(environments[0].assumed, hypotheses, [[*map(_first, of)] for of in steps])]
    return [
        environment._observation_log_likelihoods(texts, of)
        for environment, texts, of in zip(environments, hypotheses, steps, strict=True)
    ]


def _first(messages: Any) -> str | None:
    return next((question for question, _ in questions_and_replies(messages)), None)


def replies(asked: Asked, shape: Sequence[int]) -> Iterator[Float[Tensor, "b step hyp"]]:
    """Yield, for each possible reply, its likelihood under every hypothesis at each step.

    A step that asks nothing has one certain reply. There is one array in memory at a time.

    Args:
        asked: What was asked.
        shape: Number of rollouts, steps and hypotheses, of which the last two are padded.
    """
    inquiry, right = asked.inquiry, np.full(shape, -1)
    for row, texts, questions in zip(right, asked.hypotheses, asked.questions, strict=True):
        places = [inquiry.places[text] for text in texts]
        for of_step, question in zip(row, questions, strict=False):
            if question is not None and inquiry.is_question(question):
                of_step[: len(places)] = inquiry.right_replies(question)[places]
    wrong = inquiry.error_rate / max(1, len(inquiry.replies) - 1)
    for reply in range(len(inquiry.replies)):
        likely = np.where(right == reply, 1 - inquiry.error_rate, wrong)
        likely[right < 0] = float(reply == 0)
        yield torch.from_numpy(likely)


def next_beliefs(
    rollouts: ScoredRollouts, asked: Asked
) -> Iterator[tuple[Float[Tensor, "batch step"], ScoredRollouts]]:
    """Yield, for each possible reply, p(o | b(t)), and rollouts that believe b(t + 1 | o)."""
    first, now = rollouts.belief[:, :1].double(), rollouts.belief[:, :-1].double()
    if len(asked.questions) != len(now):
        raise ValueError(f"{len(asked.questions)} rollouts asked, {len(now)} have a belief.")
    for likelihood in replies(asked, now.shape):
        joint = now * likelihood.to(now)
        p = joint.sum(dim=-1)
        belief = torch.cat([first, joint / p.clamp(min=1e-300)[..., None]], dim=1)
        yield p, replace(rollouts, belief=belief)


def expected_information(rollouts: ScoredRollouts, asked: Asked) -> Float[Tensor, "batch step"]:
    r"""Return what each question tells on average, as a share of log H; 0 where none is asked:

    $$I(t) = H(b(t)) - \sum_o p(o \mid b(t)) \, H(b(t + 1 \mid o))$$
    """
    left = sum(p * belief_entropy(then)[:, 1:] for p, then in next_beliefs(rollouts, asked))
    told = belief_entropy(rollouts)[:, :-1].double() - left
    return told * rollouts.step_mask


def _looking_ahead(
    rollouts: ScoredRollouts,
    *,
    information_weight: float = 1.0,
    horizon: Literal["own", "to_go"] = "own",
) -> StepValues:
    r"""Give each step the expected outcome, and what its question tells on average:

    $$V(t) = \sum_i b_i(T) \, v_i + c \, \frac{I(t)}{\log H}$$

    With `to_go` the information of later questions is added.
    """
    expected = expected_outcomes(rollouts)
    told = expected_information(rollouts, _last[0]).to(expected.dtype)
    if horizon == "to_go":
        told = told.flip(1).cumsum(1).flip(1)
    steps = expected[:, None] + information_weight * told
    return StepValues(steps * rollouts.step_mask, expected)


def expected_value(
    rollouts: ScoredRollouts,
    asked: Asked,
    value_of: Callable[[ScoredRollouts], Float[Tensor, "batch state"]],
) -> Float[Tensor, "batch step"]:
    r"""Return the Bayes-adaptive value of each step's question:

    $$Q(t) = \sum_o p(o \mid b(t)) \, U(b(t + 1 \mid o))$$

    Its gradient is unbiased where U is the policy's own value, and belief and turn are all that the
    policy sees.

    Args:
        rollouts: The rollouts.
        asked: What they asked.
        value_of: U of each state of rollouts.
    """
    terms = (p * value_of(then)[:, 1:] for p, then in next_beliefs(rollouts, asked))
    return sum(terms, torch.zeros(1)) * rollouts.step_mask


def _value(rollouts: ScoredRollouts) -> StepValues:
    """Give each step the value of its question, and the last one the expected outcome.

    U is fitted on the expected outcomes of the batch's other prompts.
    """
    ends = expected_outcomes(rollouts)
    returns = ends[:, None].expand(rollouts.state_mask.shape).repeat(2, 1)

    def fitted(then: ScoredRollouts) -> Float[Tensor, "batch state"]:
        # what is not judged gets values of the fit, and does not enter it
        both = _joined(rollouts, replace(then, is_judged=torch.zeros_like(then.is_judged)))
        return fitted_critic(belief_features(both), returns, both)[len(ends) :]

    steps = expected_value(rollouts, _last[0], fitted).to(ends.dtype)
    number = rollouts.step_mask.sum(dim=1, keepdim=True)
    is_last = torch.arange(1, steps.shape[1] + 1, device=number.device) == number  # the answer
    return StepValues(torch.where(is_last, ends[:, None], steps), ends)


def _joined(first: ScoredRollouts, second: ScoredRollouts) -> ScoredRollouts:
    """Return the rollouts of both."""
    columns: dict[str, Any] = {}
    for name, column in vars(first).items():
        pair = column, getattr(second, name)
        is_tensor = isinstance(column, Tensor)
        columns[name] = torch.cat(pair) if is_tensor else column and [*pair[0], *pair[1]]
    return ScoredRollouts(**columns)


_AHEAD = Credit(
    _looking_ahead,
    credit_baseline="belief",
    value_normalization="none",
    needs_truth=False,
    replaces_outcome=True,
)
looking_ahead, value = _AHEAD, _AHEAD._replace(estimator=_value)
