"""The didactic example: its values through `posterior.py`, against plain loops; what it claims."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.posterior import discrepancy, posterior, progress_rewards
from barl_trl.synthetic.triplets import (
    ALL_TRIPLETS,
    ARMS,
    NUM_STEPS,
    REPEATS,
    Policy,
    Settings,
    completed,
    evaluate,
    hypotheses,
    new_triplet,
    step_values,
    train,
)

sequences = st.lists(st.integers(0, 2), min_size=3, max_size=NUM_STEPS)
prompts = st.integers(0, 2)
SETS = {"truth": (), "27": ALL_TRIPLETS, "3": REPEATS}


def batch(actions, prompt, triplets):
    return torch.tensor([actions]), hypotheses(torch.tensor([prompt]), triplets)


def contains(actions, triplet):
    return any(tuple(actions[n : n + 3]) == tuple(triplet) for n in range(len(actions) - 2))


@pytest.mark.parametrize(("triplets", "count"), [((), 1), (ALL_TRIPLETS, 27), (REPEATS, 3)])
def test_the_truth_is_hypothesis_0_and_no_hypothesis_comes_twice(triplets, count):
    for prompt in range(3):
        rows = hypotheses(torch.tensor([prompt]), triplets)[0].tolist()
        assert rows[0] == [prompt] * 3
        assert len({*map(tuple, rows)}) == len(rows) == count


@given(sequences, prompts)
def test_a_triplet_is_complete_from_its_last_action_on(actions, prompt):
    tokens, triplets = batch(actions, prompt, ALL_TRIPLETS)
    done = completed(tokens, triplets)[0]
    for state in range(len(actions) + 1):
        expected = [contains(actions[:state], triplet) for triplet in triplets[0].tolist()]
        assert done[state].tolist() == expected


@pytest.mark.parametrize("name", SETS)
@given(actions=sequences, prompt=prompts)
@settings(max_examples=50)
def test_a_step_is_worth_the_share_of_possible_triplets_that_it_and_later_ones_complete(
    name, actions, prompt
):
    tokens, triplets = batch(actions, prompt, SETS[name])
    values = step_values(tokens, triplets)[0]
    for t in range(len(actions)):
        if contains(actions[:t], [prompt] * 3):
            assert values[t] == 0, "the truth is known, and found"
            continue
        possible = [x for x in triplets[0].tolist() if not contains(actions[:t], x)]
        later = sum(contains(actions, triplet) for triplet in possible)
        assert values[t].item() == pytest.approx(later / len(possible), abs=1e-6)


@pytest.mark.parametrize("name", ["27", "3"])
@given(actions=sequences, prompt=prompts)
@settings(max_examples=50)
def test_the_papers_indicator_is_the_next_reward_of_all_consistent_hypotheses(
    name, actions, prompt
):
    """It agrees with the posterior where the paper derives it: before the reward comes, the reward
    of the very next step, not divided by the number of hypotheses."""
    tokens, triplets = batch(actions, prompt, SETS[name])
    logps = completed(tokens, triplets).float().log()
    belief = posterior(logps, beta=math.inf)[0, :-1]
    consistent = (discrepancy(logps)[0, :-1] == 0) & ~completed(tokens, triplets)[0, :-1]
    next_reward = (belief * progress_rewards(logps)[0]).sum(-1) * consistent.sum(-1)
    unsolved = ~completed(tokens, triplets)[0, :-1, 0]
    torch.testing.assert_close(next_reward[unsolved], new_triplet(tokens, triplets)[0, unsolved])


def test_the_policy_does_not_see_the_future_and_is_uniform_at_first():
    torch.manual_seed(0)
    policy = Policy(32)
    prompt, actions = torch.tensor([0, 2]), torch.randint(3, (2, 10))
    torch.testing.assert_close(policy(prompt, actions).exp(), torch.full((2, 11, 3), 1 / 3))
    for weights in (policy.head.weight, policy.prompts.weight):
        torch.nn.init.normal_(weights)
    before, changed = policy(prompt, actions), actions.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 3
    after = policy(prompt, changed)
    torch.testing.assert_close(before[:, :8], after[:, :8])
    assert not torch.allclose(before[:, 8:], after[:, 8:])
    assert not torch.allclose(before, policy(1 - prompt // 2, actions))


def test_sampled_actions_follow_the_policy():
    torch.manual_seed(0)
    policy = Policy(32)
    policy.head.bias.data = torch.tensor([0.5, 0.3, 0.2]).log()
    actions = policy.sample(torch.zeros(2000, dtype=torch.long))
    assert actions.shape == (2000, NUM_STEPS)
    shares = torch.bincount(actions.flatten()) / actions.numel()
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.3, 0.2]), atol=0.01, rtol=0)


def test_equal_seeds_give_equal_runs():
    setting = Settings(iterations=3, batch_size=8, evaluations=3)
    assert train(ARMS["barl-27"], 1, setting) == train(ARMS["barl-27"], 1, setting)


def test_the_evaluation_counts_solved_completions():
    torch.manual_seed(0)
    policy = Policy(32)
    policy.head.bias.data = torch.tensor([50.0, 0.0, 0.0])
    assert evaluate(policy, 10) == {"train_accuracy": 0.5, "unseen_accuracy": 0.0}
