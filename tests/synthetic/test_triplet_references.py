"""Exact references of the didactic example, against enumeration."""

from itertools import product

import pytest
import torch

from barl_trl.synthetic.triplets import ALL_TRIPLETS, NUM_STEPS, REFERENCES, REPEATS

from .triplet_references import (
    mean_steps,
    novel_sequence,
    references,
    shortest_sequence,
    uniform_success,
)


@pytest.fixture(scope="module")
def values():
    return references()


def test_the_package_has_the_values(values):
    assert pytest.approx(values, rel=1e-6) == REFERENCES


def contains(actions, triplet):
    return any(actions[n : n + 3] == triplet for n in range(len(actions) - 2))


@pytest.mark.parametrize("triplet", [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 2)])
@pytest.mark.parametrize("steps", [2, 3, 6, 8])
def test_uniform_success_is_the_share_of_sequences(triplet, steps):
    sequences = list(product(range(3), repeat=steps))
    share = sum(contains(actions, triplet) for actions in sequences)
    assert uniform_success(triplet, steps) * len(sequences) == share


def simulated_success(policy, episodes=4000) -> float:
    """Mean over the repeats of a policy from the last action (or None) to probabilities."""
    generator = torch.Generator().manual_seed(0)
    solved = 0
    for triplet in REPEATS:
        actions = torch.full((episodes, 0), 0)
        for _ in range(NUM_STEPS):
            last = actions[:, -1] if actions.shape[1] else torch.full((episodes,), 3)
            action = policy[last].multinomial(1, generator=generator)
            actions = torch.cat([actions, action], dim=1)
        windows = actions.unfold(1, 3, 1)
        solved += (windows == torch.tensor(triplet)).all(-1).any(-1).float().mean().item()
    return solved / 3


def test_a_known_policy_attains_nearly_the_best_with_one_action_of_memory(values):
    """Repeat with probability q, else go on to the next token: scanned over q."""
    best = 0.0
    for q in torch.linspace(0.5, 0.8, 7).tolist():
        rows = [[0.0] * 3 for _ in range(4)]
        for a in range(3):
            rows[a][a], rows[a][(a + 1) % 3] = q, 1 - q
        rows[3][0] = 1.0
        best = max(best, simulated_success(torch.tensor(rows)))
    expected = values["best policy that sees the last action, 3 hypotheses"]
    assert best == pytest.approx(expected, abs=0.02)


def test_the_shortest_sequence_for_the_repeats_is_the_best_of_all():
    best = min(
        mean_steps(list(actions), REPEATS)
        for actions in product(range(3), repeat=9)
        if all(contains(actions, triplet) for triplet in REPEATS)
    )
    assert mean_steps(shortest_sequence(REPEATS), REPEATS) == best == 6


def test_the_novel_sequence_completes_a_triplet_at_each_step_from_the_third_on():
    actions = novel_sequence()
    triplets = [tuple(actions[n : n + 3]) for n in range(len(actions) - 2)]
    assert sorted(triplets) == sorted(ALL_TRIPLETS)
    assert len(actions) == NUM_STEPS
    assert mean_steps(actions, ALL_TRIPLETS) == sum(range(3, 30)) / 27
