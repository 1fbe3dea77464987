"""Looking ahead: information and value averaged over replies, by enumeration of a small tree."""

import itertools
import math
from functools import cache

import pytest
import torch

from barl_trl.credit.token_weights import weigh_steps
from experiments.inquiry import ahead
from experiments.inquiry.inquiry import Inquiry

from ..credit.scored import scored
from ..reference import Rollout, entropy

HYPOTHESES, QUESTIONS, TURNS = ("a", "b", "c"), ("is it a", "is it c"), 2
GAME = Inquiry("Which?", HYPOTHESES, QUESTIONS, lambda q, h: str(q[-1] == h), error_rate=0.2)
EXCHANGES, FLAT = [*itertools.product(QUESTIONS, GAME.replies)], (1 / 3,) * 3


def bayes_rule(belief, question, reply):
    """p(reply | belief), and the belief behind it."""
    likely = [0.8 if str(question[-1] == h) == reply else 0.2 for h in HYPOTHESES]
    joint = [b * p for b, p in zip(belief, likely, strict=True)]
    return sum(joint), tuple(x / sum(joint) for x in joint)


def key(turn, belief):  # what the policy sees
    return turn, tuple(round(b, 9) for b in belief)


def histories(beliefs=(FLAT,), heard=()):
    """Ways to play on: beliefs, questions with replies, and the hypothesis that is answered."""
    yield from ((beliefs, heard, answer) for answer in range(3))
    for one in EXCHANGES if len(heard) < TURNS else ():
        yield from histories((*beliefs, bayes_rule(beliefs[-1], *one)[1]), (*heard, one))


PLAYS = [*histories()]
torch.manual_seed(0)
LOGITS = {  # of 2 questions and 3 answers
    one: torch.randn(5, dtype=torch.float64, requires_grad=True)
    for one in dict.fromkeys(key(t, b) for beliefs, *_ in PLAYS for t, b in enumerate(beliefs))
}


def log_policy(turn, belief, action):
    own = LOGITS[key(turn, belief)]
    return own[action] - own[0 if turn < TURNS else 2 :].logsumexp(0)


def value(turn, belief):
    """The probability to find the secret from here on, by recursion."""
    total = sum(log_policy(turn, belief, 2 + i).exp() * b for i, b in enumerate(belief))
    for one in EXCHANGES if turn < TURNS else ():
        p, then = bayes_rule(belief, *one)
        asked = log_policy(turn, belief, QUESTIONS.index(one[0])).exp()
        total = total + asked * p * value(turn + 1, then)
    return total


@cache
def scores_of(n):
    """Probability of a play over secrets, replies and the policy; log-policy of its actions."""
    beliefs, heard, answer = PLAYS[n]
    actions = [*(QUESTIONS.index(question) for question, _ in heard), 2 + answer]
    logs = [log_policy(t, beliefs[t], action) for t, action in enumerate(actions)]
    of_replies = math.prod(bayes_rule(beliefs[t], *one)[0] for t, one in enumerate(heard))
    return of_replies * sum(logs).exp().item(), logs


def error(weights):
    """How far the expected gradient is from the true one; `weights` of the turns of each play."""
    left = -value(0, FLAT)
    for n, of_turns in enumerate(weights):
        chance, logs = scores_of(n)
        left = left + chance * sum(w * x for w, x in zip(of_turns, logs, strict=True))
    parts = torch.autograd.grad(left, [*LOGITS.values()], retain_graph=True)
    return max(part.abs().max().item() for part in parts)


def told(plays):
    """Tell the module what they asked, as the trainer does; return the rollouts."""
    questions = [[question for question, _ in heard] for _, heard, _ in plays]
    ahead._last[:] = [ahead.Asked(GAME, [HYPOTHESES] * len(plays), questions)]
    return [
        Rollout(n, [[math.log(b) for b in of] for of in beliefs], member=answer, beta=0.0)
        for n, (beliefs, _, answer) in enumerate(plays)
    ]


def test_the_information_of_a_question_is_what_its_replies_tell_on_average():
    found = ahead.expected_information(scored(told(PLAYS)), ahead._last[0]).tolist()
    for (beliefs, heard, _), row in zip(PLAYS, found, strict=True):
        for now, (question, _), told_by_it in zip(beliefs, heard, row, strict=False):
            behind = [bayes_rule(now, question, reply) for reply in GAME.replies]
            expected = entropy(now) - sum(p * entropy(then) for p, then in behind)
            assert told_by_it == pytest.approx(expected, abs=1e-12)
        assert not any(row[len(heard) :])


@pytest.mark.parametrize(("weight", "is_unbiased"), [(0.0, True), (1.0, False)])
def test_without_information_it_is_unbiased_behind_the_baseline_of_the_belief(weight, is_unbiased):
    """Whatever is the one rollout of another prompt on which the baseline is fitted."""
    settings, means = {"credit_options": {"information_weight": weight}}, 0.0
    for n, other in enumerate(PLAYS):
        rollouts = [r._replace(group=int(r.group == len(PLAYS))) for r in told([*PLAYS, other])]
        steps, closing = weigh_steps(scored(rollouts), ahead.looking_ahead, settings)
        means = means + scores_of(n)[0] * torch.cat([steps, closing[:, None]], dim=1)
    rows = zip(means.tolist(), PLAYS, strict=False)
    found = error([[*row[: len(heard)], row[-1]] for row, (_, heard, _) in rows])
    assert (found < 1e-12) == is_unbiased


def test_the_value_of_a_question_is_unbiased_with_the_policys_own_value():
    def own(then):  # 0 in padding
        keys = [[*enumerate(map(tuple, row))] for row in then.belief.tolist()]
        rows = [[value(*x).item() if key(*x) in LOGITS else 0.0 for x in row] for row in keys]
        return torch.tensor(rows, dtype=torch.float64)

    found = ahead.expected_value(scored(told(PLAYS)), ahead._last[0], own).tolist()
    pairs = zip(found, PLAYS, strict=True)
    assert error([[*q[: len(heard)], beliefs[-1][i]] for q, (beliefs, heard, i) in pairs]) < 1e-12
    values, closing = ahead.value.function(scored(told(PLAYS)))  # the last turn is taken to answer
    for row, end, (beliefs, heard, i) in zip(values, closing, PLAYS, strict=True):
        assert end == pytest.approx(beliefs[-1][i]) and (not heard or row[len(heard) - 1] == end)
