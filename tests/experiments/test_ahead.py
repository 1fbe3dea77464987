"""Looking ahead: information and value averaged over replies, by enumeration of a small tree."""

import itertools
import math

import numpy as np
import pytest
import torch

from barl_trl.credit.token_weights import weigh_steps
from experiments.inquiry import ahead
from experiments.inquiry.environments import InquiryEnvironment
from experiments.inquiry.inquiry import Inquiry, number

from ..credit.scored import scored
from ..reference import Rollout

GAME = Inquiry(
    "Which?", ("a", "b", "c"), ("is it a", "is it c"), lambda q, h: str(q[-1] == h), error_rate=0.2
)
TURNS = 2


def bayes_rule(belief, question, reply):
    """p(reply | belief), and the belief behind it."""
    joint = [
        b * (0.8 if str(question[-1] == h) == reply else 0.2)
        for b, h in zip(belief, GAME.hypotheses, strict=True)
    ]
    return sum(joint), tuple(x / sum(joint) for x in joint)


def key(turn, belief):
    """What the policy sees."""
    return turn, tuple(round(b, 9) for b in belief)


def histories():
    """Each way to play: beliefs, questions with replies, and the hypothesis that is answered."""
    going = [([(1 / 3,) * 3], [])]
    for turn in range(TURNS + 1):
        for beliefs, heard in going:
            yield from ((beliefs, heard, answer) for answer in range(3))
        asked = [*itertools.product(GAME.questions, GAME.replies)] if turn < TURNS else []
        going = [
            ([*beliefs, bayes_rule(beliefs[-1], *one)[1]], [*heard, one])
            for beliefs, heard in going
            for one in asked
        ]


@pytest.fixture(scope="module")
def plays():
    return [*histories()]


@pytest.fixture(scope="module")
def logits(plays):
    """Of 2 questions and 3 answers in each state; with no turn left, of the answers."""
    torch.manual_seed(0)
    states = dict.fromkeys(key(t, b) for beliefs, *_ in plays for t, b in enumerate(beliefs))
    return {one: torch.randn(5, dtype=torch.float64, requires_grad=True) for one in states}


def log_policy(logits, turn, belief):
    own = logits[key(turn, belief)]
    return own.log_softmax(0) if turn < TURNS else torch.cat([own[:2] * 0, own[2:].log_softmax(0)])


def value(logits, turn, belief):
    """The probability to find the secret from here on, by recursion."""
    policy = log_policy(logits, turn, belief).exp()
    total = sum(policy[2 + i] * b for i, b in enumerate(belief))
    if turn < TURNS:
        for i, question in enumerate(GAME.questions):
            for reply in GAME.replies:
                p, then = bayes_rule(belief, question, reply)
                total = total + policy[i] * p * value(logits, turn + 1, then)
    return total


def actions(play):
    _, heard, answer = play
    return [*(GAME.questions.index(question) for question, _ in heard), 2 + answer]


def likelihood(logits, play):
    """Probability of a play over secrets, replies and the policy."""
    beliefs, heard, _ = play
    of_replies = math.prod(bayes_rule(beliefs[t], *one)[0] for t, one in enumerate(heard))
    chosen = [log_policy(logits, t, beliefs[t])[a] for t, a in enumerate(actions(play))]
    return of_replies * sum(chosen).exp().item()


def told(plays):
    """Tell the module what they asked, as the trainer does; return the rollouts."""
    steps = [
        [
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"arguments": {"it": question}}}],
                },
                {"role": "tool", "content": reply},
            ]
            for question, reply in heard
        ]
        for _, heard, _ in plays
    ]
    logs = ahead.observation_likelihood(
        [GAME.hypotheses] * len(plays), steps, [InquiryEnvironment(GAME)] * len(plays)
    )
    rollouts = []
    for n, ((beliefs, _, answer), of) in enumerate(zip(plays, logs, strict=True)):
        known = np.exp(of.sum(axis=0))
        np.testing.assert_allclose(known / known.sum(), beliefs[-1])
        table = [[math.log(b) for b in belief] for belief in beliefs]
        rollouts.append(Rollout(n, table, member=answer, beta=0.0))
    return rollouts


def gradient(logits, plays, weights_of):
    """Expected weighted sum of the scores; `weights_of` a play's place gives those of its turns."""
    total = 0.0
    for n, play in enumerate(plays):
        scores = [log_policy(logits, t, play[0][t])[a] for t, a in enumerate(actions(play))]
        weighted = sum(w * score for w, score in zip(weights_of(n), scores, strict=True))
        total = total + likelihood(logits, play) * weighted
    return flat(torch.autograd.grad(total, [*logits.values()]))


def flat(parts):
    return torch.cat([part.flatten() for part in parts])


@pytest.fixture(scope="module")
def true_gradient(logits):
    return flat(torch.autograd.grad(value(logits, 0, (1 / 3,) * 3), [*logits.values()]))


def test_the_information_of_a_question_is_what_its_replies_tell_on_average(plays):
    def entropy(belief):
        return -sum(b * math.log(b) for b in belief if b > 0) / math.log(3)

    rollouts = told(plays)
    found = ahead.expected_information(scored(rollouts), ahead._last[0])
    for (beliefs, heard, _), row in zip(plays, found.tolist(), strict=True):
        expected = []
        for belief, (question, _) in zip(beliefs, heard, strict=False):
            replies = [bayes_rule(belief, question, reply) for reply in GAME.replies]
            expected.append(entropy(belief) - sum(p * entropy(then) for p, then in replies))
        assert row == pytest.approx(expected + [0.0] * (TURNS - len(heard)), abs=1e-12)


def test_without_information_the_credit_is_unbiased_behind_the_baseline_of_the_belief(
    plays, logits, true_gradient
):
    """Whatever is the one rollout of another prompt on which the baseline is fitted."""
    chances = [likelihood(logits, play) for play in plays]
    assert sum(chances) == pytest.approx(1)
    left = {}
    for weight in (0.0, 1.0):
        settings, means = {"credit_options": {"information_weight": weight}}, 0.0
        for other, chance in zip(plays, chances, strict=True):
            rollouts = [r._replace(group=int(r.group == len(plays))) for r in told([*plays, other])]
            steps, closing = weigh_steps(scored(rollouts), ahead.looking_ahead, settings)
            means = means + chance * torch.cat([steps, closing[:, None]], dim=1)
        weights = [
            [*row[: len(play[1])], row[-1]]
            for row, play in zip(means.tolist(), plays, strict=False)
        ]
        left[weight] = (gradient(logits, plays, weights.__getitem__) - true_gradient).abs().max()
    assert left[0.0] < 1e-12 and left[1.0] > 0.01


def test_the_value_of_a_question_is_unbiased_with_the_policys_own_value(
    plays, logits, true_gradient
):
    def own(then):
        known = torch.zeros(then.belief.shape[:2], dtype=torch.float64)
        for row, beliefs in zip(known, then.belief.tolist(), strict=True):
            for turn, belief in enumerate(beliefs):
                if key(turn, belief) in logits:  # not in padding
                    row[turn] = value(logits, turn, belief).detach()
        return known

    rollouts = told(plays)
    found = ahead.expected_value(scored(rollouts), ahead._last[0], own).tolist()
    ends = [play[0][-1][play[2]] for play in plays]
    weights = [
        [*row[: len(play[1])], end] for row, play, end in zip(found, plays, ends, strict=True)
    ]
    assert (gradient(logits, plays, weights.__getitem__) - true_gradient).abs().max() < 1e-12


def test_the_value_of_a_question_is_fitted_on_the_other_prompts():
    """One that halves is worth more than what is no question, whatever its reply was."""
    game, questions = number(16), ["9", "17"] * 24
    ahead._last[:] = [ahead.Asked(game, [game.hypotheses] * 48, [[one] for one in questions])]
    rollouts = []
    for n, question in enumerate(questions):
        left = (range(8) if n % 4 < 2 else range(8, 16)) if question == "9" else range(16)
        after = [1 / len(left) if i in left else 0.0 for i in range(16)]
        logs = [[math.log(b) if b else -math.inf for b in of] for of in ([1 / 16] * 16, after)]
        rollouts.append(Rollout(n // 8, logs, member=left[0], beta=0.0))
    values = ahead.value.function(scored(rollouts)).steps[:, 0].reshape(6, 4, 2)
    assert (values.std(dim=1) < 1e-9).all() and (values[..., 0] > values[..., 1] + 0.01).all()
