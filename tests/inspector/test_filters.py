"""What a rollout is counted as."""

import pytest

from barl_trl.inspector.derived import derive
from barl_trl.inspector.filters import FILTERS, kinds, mean_weight

from .rollouts import METADATA, make_record, metadata_of


def names(group, metadata=METADATA):
    derived = derive(group, metadata)
    found = kinds(list(zip(group, derived, strict=True)), metadata["settings"])
    return [{name for bit, name in enumerate(FILTERS) if bits >> bit & 1} for bits in found]


def weighted(record, weight):
    return record | {"token_weights": [weight] * len(record["tokens"])}


PAIR = [weighted(make_record(n, rollout=n, outcome=float(n)), 0.0) for n in range(2)]


@pytest.mark.parametrize(
    ("place", "change", "added"),
    [
        (0, lambda r: weighted(r, 0.1), "wrong_praised"),
        (1, lambda r: weighted(r, -0.1), "right_blamed"),
        (0, lambda r: r | {"is_cut_off": True}, "truncated"),
        (0, lambda r: r | {"answer": None, "member": None}, "no_answer"),
        (0, lambda r: r | {"reason": "timeout"}, "timed_out"),
        (0, lambda r: r | {"ended_in_call": False}, "asked_nothing"),
        (0, lambda r: r | {"ended_in_call": True}, "ended_in_call"),
        (1, lambda r: r | {"step_values": [v + 1 for v in r["step_values"]]}, "differs"),
    ],
)
def test_kinds(place, change, added):
    assert names(PAIR) == [{"wrong"}, {"right"}]
    changed = list(PAIR)
    changed[place] = change(changed[place])
    found = names(changed)
    assert found[place] == {["wrong", "right"][place], added}
    assert found[1 - place] == names(PAIR)[1 - place]


def test_equal_outcomes_with_weights_apart_are_a_kind_of_the_whole_group():
    tied = [weighted(make_record(n, rollout=n), 0.3 * n) for n in range(3)]
    assert all("tied_spread" in found for found in names(tied))
    flat = [weighted(record, 0.3) for record in tied]
    assert not any("tied_spread" in found for found in names(flat))
    assert not any("tied_spread" in found for found in names([tied[0]]))


def test_right_is_the_truth_and_where_answers_are_no_hypotheses_a_reward():
    wrong = weighted(make_record(1, outcome=0.0), 0.0) | {"step_values": None}
    unscored = wrong | {"hypotheses": None, "member": None}
    truth_alone = weighted(make_record(1, size=1), 0.0) | {"step_values": None, "member": None}
    costly = truth_alone | {"member": 0, "outcome": -0.2}
    for record, kind in (
        (wrong | {"outcome": 0.2}, "wrong"),  # a reward for form, say
        (unscored, "wrong"),
        (unscored | {"outcome": 1.0}, "right"),
        (unscored | {"outcome": None}, "wrong"),
        (truth_alone, "wrong"),  # nobody answered the truth, nor anything that is a hypothesis
        (costly, "right"),
    ):
        assert names([record]) == [{kind}]
    assert names([truth_alone], metadata_of(credit="progress")) == [{"right"}]


def test_mean_weight_counts_tokens():
    record = make_record(1) | {"token_weights": None, "step_ends": [1, 5, 6, 7]}
    [derived] = derive([record], METADATA)
    expected = sum(w * n for w, n in zip(derived.weights, (1, 4, 1, 1), strict=True)) / 7
    assert mean_weight(record, derived) == pytest.approx(expected)


def test_without_a_truth_a_rollout_is_neither_right_nor_wrong():
    record = weighted(make_record(1), 0.1) | {"has_truth": False, "step_values": None}
    unscored = record | {"hypotheses": None, "member": None, "has_truth": None, "solution": None}
    for one in (record, record | {"outcome": None}, unscored):
        assert names([one]) == [{"no_truth"}]
    # the run scored no answers at all: the reward is what is known
    assert names([unscored | {"scored_tokens": None}]) == [{"right"}]
    pair = [record | {"rollout": n, "outcome": None} for n in range(2)]
    pair[1] = weighted(pair[1], -0.9)
    assert names(pair) == [{"no_truth"}] * 2  # no outcomes are no equal ones


def test_rewards_of_turns_and_costs_are_no_verdict_and_join_the_return():
    nothing = dict.fromkeys(("hypotheses", "member", "scored_tokens", "step_values", "answer"))
    record = weighted(make_record(1, outcome=0.0), 0.1) | nothing
    for more in ({"solution": None}, {}, {"cost": 0.0, "rewards": [0.0, 0.6]}):
        first = record | more | {"turn_rewards": [0.1, 0.2, None, 0.3]}
        last = weighted(first, 0.9) | {"turn_rewards": [0.3, 0.2, 0.1, 0.0]}  # but for noise, equal
        assert names([first, last]) == [{"no_truth", "tied_spread"}] * 2
        assert names([first, last | {"turn_rewards": [1.0]}]) == [{"no_truth"}] * 2
    assert names([first | {"rewards": [0.0] * 3}]) == [{"wrong", "wrong_praised", "no_answer"}]
