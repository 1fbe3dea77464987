"""Markovian policies on the tree: walked through edge by edge in exact fractions, enumerated,
searched and simulated, beside the closed form.
"""

import json
import math
from fractions import Fraction
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.synthetic.decision_tree import DecisionTree, adaptive_return, fewest_steps
from barl_trl.synthetic.tree_gap import (
    ACTIONS,
    best_markovian_policy,
    markovian_return,
    reset_return,
    results,
    table_rows,
)

from ..paths import ROOT

BACKS = ("root", "parent")
PROOF, FIGURE = DecisionTree(3, "root"), DecisionTree(3, "parent")


def walked(tree, policy, horizon):
    """Return of a policy, node -> {action: probability}, by its definition, truth by truth."""
    total = Fraction(0)
    for truth in tree.leaves:
        mass = {0: Fraction(1)}
        for _ in range(horizon):
            following = {}
            for node, share in mass.items():
                for action, p in policy[node].items():
                    target = tree.moves[node][action]
                    following[target] = following.get(target, 0) + share * p
            total += following.pop(truth, 0)
            mass = following
    return total / len(tree.leaves)


def uniform(tree):
    return [{action: Fraction(1, len(moves)) for action in moves} for moves in tree.moves]


def as_tensor(policy):
    rows = [[float(actions.get(action, 0)) for action in ACTIONS] for actions in policy]
    return torch.tensor(rows, dtype=torch.float64)


@st.composite
def policies(draw, tree):
    drawn = []
    for moves in tree.moves:
        weights = [draw(st.integers(0, 5)) for _ in moves]
        weights[-1] += sum(weights) == 0
        total = sum(weights)
        drawn.append({a: Fraction(w, total) for a, w in zip(moves, weights, strict=True)})
    return drawn


@pytest.mark.parametrize("tree", [PROOF, FIGURE], ids=str)
@settings(max_examples=40)
@given(data=st.data())
def test_markov_chain_is_the_walk(tree, data):
    policy = data.draw(policies(tree))
    horizon = data.draw(st.integers(0, 12))
    chain = markovian_return(tree, as_tensor(policy), horizon=horizon).item()
    assert chain == pytest.approx(float(walked(tree, policy, horizon)), abs=1e-12)


# The proof's tree: back to the root


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_an_even_coin_attains_the_closed_form(depth):
    tree = DecisionTree(depth)
    leaves = len(tree.leaves)
    assert walked(tree, uniform(tree), leaves * depth - 1) == reset_return(leaves, leaves)


@settings(max_examples=60)
@given(policies(PROOF), st.integers(2, 20))
def test_no_policy_exceeds_the_closed_form(policy, horizon):
    """In `horizon` steps fit (horizon + 1) // d passes: what remains is no whole one."""
    passes = (horizon + 1) // PROOF.depth
    best = reset_return(4, passes)
    assert walked(PROOF, policy, horizon) <= best == walked(PROOF, uniform(PROOF), horizon)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_search_that_does_not_know_the_closed_form_finds_it(depth):
    tree = DecisionTree(depth)
    horizon = fewest_steps(tree)[-1]
    policy = best_markovian_policy(tree, horizon=horizon, starts=4)
    found = markovian_return(tree, policy, horizon=horizon).item()
    assert found == pytest.approx(float(reset_return(len(tree.leaves), len(tree.leaves))), abs=1e-6)


def test_closed_form_falls_to_what_independent_draws_leave():
    values = [float(reset_return(2 ** (d - 1), 2 ** (d - 1))) for d in range(2, 12)]
    assert [round(value, 3) for value in values[:5]] == [0.75, 0.684, 0.656, 0.644, 0.638]
    assert values == sorted(values, reverse=True)
    assert 0 < values[-1] - (1 - 1 / math.e) < 2e-4


@pytest.mark.parametrize("leaves", [2, 4, 8, 16, 32])
def test_gap_is_widest_when_the_adaptive_policy_has_just_enough_steps(leaves):
    """0 for a single pass, below 1/e always, and 0 again in the long run."""
    adaptive = [Fraction(min(passes, leaves), leaves) for passes in range(20 * leaves)]
    gaps = [best - reset_return(leaves, passes) for passes, best in enumerate(adaptive)]
    assert gaps[1] == 0
    assert gaps.index(max(gaps)) == leaves
    assert max(gaps) < 1 / math.e
    assert gaps[-1] < 1e-8


# Both trees


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("depth", [2, 3])
def test_deterministic_policies_find_one_leaf_however_long_they_walk(depth, back):
    tree = DecisionTree(depth, back)
    every = product(*[[{action: Fraction(1)} for action in moves] for moves in tree.moves])
    found = {walked(tree, policy, horizon=40) for policy in every}
    assert max(found) == Fraction(1, len(tree.leaves))


@pytest.mark.parametrize("tree", [PROOF, FIGURE], ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_a_single_pass_finds_one_leaf_of_n_adaptive_or_not(tree, data):
    single = tree.depth - 1
    assert walked(tree, data.draw(policies(tree)), single) <= Fraction(1, 4)
    assert adaptive_return(fewest_steps(tree), single) == Fraction(1, 4)


# The figure's tree: back to the parent


@pytest.fixture(scope="module")
def best_on_the_figures_tree():
    policy = best_markovian_policy(FIGURE, horizon=10)
    return policy, markovian_return(FIGURE, policy, horizon=10).item()


def test_no_policy_on_a_grid_exceeds_the_one_found(best_on_the_figures_tree):
    _, found = best_on_the_figures_tree
    ticks = torch.arange(11, dtype=torch.float64) / 10
    # with an even coin at s1 and s4; the next tests have others
    shares = product(ticks, repeat=3)
    grid = []
    for root, up_1, up_4 in shares:
        policy = torch.zeros(7, 3, dtype=torch.float64)
        policy[0, :2] = torch.stack([root, 1 - root])
        for node, up in ((1, up_1), (4, up_4)):
            policy[node] = torch.stack([(1 - up) / 2, (1 - up) / 2, up])
        policy[[2, 3, 5, 6], 2] = 1
        grid.append(markovian_return(FIGURE, policy, horizon=10).item())
    assert found - 0.005 < max(grid) < found + 1e-9


@settings(max_examples=60)
@given(policies(FIGURE))
def test_no_random_policy_exceeds_the_one_found(best_on_the_figures_tree, policy):
    assert walked(FIGURE, policy, 10) <= best_on_the_figures_tree[1] + 1e-9


# Results


@pytest.fixture(scope="module")
def solved():
    return json.loads(json.dumps(results(depths=(2, 3, 4))))


def test_table(solved):
    rows = table_rows(solved)
    assert list(rows[0].values()) == ["2", "2", "root", "3", "2", "1", "1/2", "1/2", "0.750"]
    assert [list(row.values())[3:] for row in rows[1:]] == [
        ["3", "2", "1", "1/2", "1/2", "0.750"],
        ["11", "6.5", "1", "3/4", "1/4", "0.684"],
        ["10", "6", "1", "3/4", "1/4", "≥ 0.508"],
        ["31", "17", "1", "7/8", "1/8", "0.656"],
        ["25", "14", "1", "7/8", "1/8", "≥ 0.382"],
    ]


def test_docs_show_this_table(solved):
    page = (ROOT / "docs" / "decision-tree.md").read_text()
    header, *rows = [
        *map(" | ".join, [table_rows(solved)[0], *map(dict.values, table_rows(solved))])
    ]
    assert f"| {header} |" in page
    assert all(f"| {row} |" in page for row in rows)


def test_docs_show_other_horizons():
    page = (ROOT / "docs" / "decision-tree.md").read_text()
    for passes, horizon in ((1, 2), (2, 5), (4, 11), (8, 23), (16, 47)):
        best = reset_return(4, passes)
        assert walked(PROOF, uniform(PROOF), horizon) == best
        shown = f"{float(best):.3f}" if passes > 1 else "0.25"
        assert f"| {passes} | {horizon} | {min(passes, 4) / 4:g} | {shown} |" in page


def test_example_is_the_papers_trajectory(solved):
    _, example = solved["examples"]
    assert example["leaves"] == [2, 3, 5, 6]
    assert [attempt["path"] for attempt in example["tries"]] == [
        [0, 1, 2],
        [2, 1, 3],
        [3, 1, 0, 4, 5],
        [5, 4, 6],
    ]
    assert [attempt["belief"] for attempt in example["tries"]] == [
        pytest.approx(row)
        for row in ([1 / 4] * 4, [0, *[1 / 3] * 3], [0, 0, 1 / 2, 1 / 2], [0, 0, 0, 1])
    ]
    assert [attempt["reward"] for attempt in example["tries"]] == [0, 0, 0, 1]
    assert example["tries"][2]["steps"] == [5, 8]
