"""Rewards of turns: what they add to each credit, and which baselines are unbiased."""

import itertools

import pytest
import torch
from hypothesis import given, settings

from barl_trl.credit import CREDITS
from barl_trl.credit.token_weights import weigh_steps

from .. import reference
from ..reference import Rollout
from .scored import batches, check, rows, scored

# A tree of two turns: say nothing, stop and end the turn in one of two ways, or ask, hear x or y,
# and answer A or B.
HEARD = {"x": 0.3, "y": 0.7}
ROLLOUTS = {  # actions with their states, probability of what was heard, rewards of turns, outcome
    "mute": ([("", "mute")], 1.0, (0.7,), 0.0),
    "stop": ([("", "stop"), ("s", "end")], 1.0, (0.2,), 0.0),
    "trail": ([("", "stop"), ("s", "trail")], 1.0, (0.6,), 0.0),
    **{
        f"{heard}{answer}": (
            [("", "ask"), (heard, answer)],
            HEARD[heard],
            (-0.1 if heard == "x" else 0.4, 0.3 if answer == "A" else -0.5),
            float(heard + answer in ("xA", "yB")),
        )
        for heard, answer in itertools.product("xy", "AB")
    },
}
STATES = {"": ("mute", "stop", "ask"), "s": ("end", "trail"), "x": ("A", "B"), "y": ("A", "B")}
GROUP = 3


def log_policy(parameters):
    """Log-probability of each action of each state."""
    return {
        (state, action): logits.log_softmax(0)[i]
        for (state, actions), logits in zip(
            STATES.items(), parameters.split([*map(len, STATES.values())]), strict=True
        )
        for i, action in enumerate(actions)
    }


def expected_gradient(parameters, baseline, turn_return="to_go"):
    """Exact expectation, over all groups of rollouts, of weights times scores."""
    policy = log_policy(parameters)
    probability, score = {}, {}
    for name, (actions, of_heard, _, _) in ROLLOUTS.items():
        probability[name] = of_heard * sum(policy[a] for a in actions).exp().item()
        score[name] = [
            torch.autograd.grad(policy[a], parameters, retain_graph=True)[0] for a in actions
        ]
    groups = [*itertools.product(ROLLOUTS, repeat=GROUP)]
    plain = [
        Rollout(
            g,
            [[0.0]] * (1 if name == "mute" else len(rewards) + 1),
            outcome,
            turn_rewards=rewards,
            states=tuple([*STATES].index(state) for state, _ in actions[: len(rewards)]),
        )
        for g, names in enumerate(groups)
        for name in names
        for actions, _, rewards, outcome in (ROLLOUTS[name],)
    ]
    credit = CREDITS["turns"]._replace(credit_baseline=baseline)
    values = rows(weigh_steps(scored(plain), credit, {"turn_return": turn_return}), plain)
    total = torch.zeros_like(parameters)
    for names, of_group in zip(groups, zip(*[iter(values)] * GROUP, strict=True), strict=True):
        weight = torch.tensor([probability[name] for name in names]).prod()
        for name, row in zip(names, of_group, strict=True):
            for value, gradient in zip(row, score[name], strict=False):
                total += weight * value * gradient / GROUP
    return total


def true_gradient(parameters):
    policy = log_policy(parameters)
    value = sum(
        of_heard * sum(policy[a] for a in actions).exp() * (sum(rewards) + outcome)
        for actions, of_heard, rewards, outcome in ROLLOUTS.values()
    )
    return torch.autograd.grad(value, parameters)[0]


@pytest.mark.parametrize(
    ("baseline", "is_unbiased"),
    [("none", True), ("leave_one_out", True), ("step", True), ("state", True), ("group", False)],
)
def test_the_gradient_of_the_return_to_go_is_unbiased(baseline, is_unbiased):
    """Though the policy decides when to stop. A mean with the own value shrinks the gradient."""
    torch.manual_seed(0)
    parameters = torch.randn(9, dtype=torch.float64, requires_grad=True)
    found = expected_gradient(parameters, baseline)
    assert torch.allclose(found, true_gradient(parameters), atol=1e-12) == is_unbiased


@settings(max_examples=15)
@given(batches())
@pytest.mark.parametrize("name", ["barl", "bayes", "gae", "rloo", "grpo"])
def test_they_join_the_values_of_the_other_credits(name, rollouts):
    """From each step on; in plain RL, where a rollout is one action, they join the outcome."""
    credit = CREDITS[name]._replace(credit_baseline="none")
    if credit.turn_rewards == "sum":
        summed = [r._replace(outcome=r.outcome + sum(r.turn_rewards)) for r in rollouts]
        twin = {"rloo": reference.outcome, "grpo": reference.grpo}[name]
        expected = twin(summed)
    else:
        without = [r._replace(turn_rewards=()) for r in rollouts]
        expected = [
            [x + sum(r.turn_rewards[max(0, min(t, len(row) - 2)) :]) for t, x in enumerate(row)]
            for r, row in zip(
                rollouts, rows(weigh_steps(scored(without), credit, {}), rollouts), strict=True
            )
        ]
    check(
        rows(weigh_steps(scored(rollouts), credit, {}), rollouts),
        expected,
        [r.is_judged for r in rollouts],
    )
