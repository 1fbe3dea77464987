"""What estimators of credit see: the rollouts of all processes, judged or not."""

import copy
import json

import pytest
import torch

from barl_trl.trainer.scoring import scored_rollouts

from ..credit.scored import scored
from ..distributed.launching import launch
from . import by_hand, credit_worker, verdicts_worker
from .rollouts import CASES, ROWS, config, given_rollouts, trainer

# One process

GUESS, LAST = CASES[1][1], CASES[7][1]
CUT_OFF = [GUESS, LAST]


def seen(model, tokenizer, args, *, rows=ROWS, **kwargs):
    """The given rollouts, as `BARLTrainer` shows them to an estimator."""
    rollout_func = given_rollouts(cut_off=CUT_OFF)
    barl_trainer = trainer(
        copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func, **kwargs
    )
    barl_trainer.model.train()
    barl_trainer._generate_and_score_completions(rows)
    rewards = barl_trainer._rewards_per_func
    return scored_rollouts(
        barl_trainer.accelerator,
        barl_trainer._score(),
        rewards.nansum(dim=1).masked_fill(rewards.isnan().all(dim=1), torch.nan),
        group_size=4,
        beta=args.consistency_beta,
    )


def without_answers(rollout):
    return rollout._replace(logps=[[] for _ in rollout.logps], member=None)


def assert_same(found, expected):
    assert found.members == expected.members
    for name, want in vars(expected).items():
        if name != "members":
            torch.testing.assert_close(getattr(found, name), want, atol=1e-4, rtol=0)


def test_rollouts_are_scored_and_believed_as_by_hand(model, tokenizer, tmp_path):
    found = seen(model, tokenizer, config(tmp_path))
    expected = by_hand.scored_rollouts(model, tokenizer, cut_off=CUT_OFF)
    assert sum(r.is_cut_off for r in expected) == 2
    assert_same(found, scored(expected, dtype=torch.float32))


def test_without_a_usable_truth_or_an_outcome_a_rollout_is_not_judged(model, tokenizer, tmp_path):
    def all_but_the_guess(completions, **_):
        return [None if text == GUESS else 0.5 for text in completions]

    rows = [*ROWS[:4], *(row | {"solution": None} for row in ROWS[4:])]
    args = config(tmp_path)
    found = seen(model, tokenizer, args, rows=rows, reward_funcs=all_but_the_guess)
    given = by_hand.scored_rollouts(model, tokenizer, cut_off=CUT_OFF)
    expected = [r._replace(outcome=0.5) for r in given[:4]]
    expected[1] = given[1]._replace(outcome=0.0, is_judged=False)
    expected += [without_answers(r)._replace(outcome=0.0, is_judged=False) for r in given[4:]]
    assert_same(found, scored(expected, dtype=torch.float32))


def test_a_credit_of_the_truth_alone_sees_no_other_hypothesis(model, tokenizer, tmp_path):
    found = seen(model, tokenizer, config(tmp_path, credit="belief_critic"))
    expected = [
        r._replace(logps=[row[:1] for row in r.logps], member=None)
        for r in by_hand.scored_rollouts(model, tokenizer, cut_off=CUT_OFF)
    ]
    assert_same(found, scored(expected, dtype=torch.float32))


def test_a_credit_that_needs_no_scores_sees_none(model, tokenizer, tmp_path):
    found = seen(model, tokenizer, config(tmp_path, credit="rloo"))
    given = by_hand.scored_rollouts(model, tokenizer, cut_off=CUT_OFF)
    assert found.belief.shape[2] == 0
    assert_same(found, scored([without_answers(r) for r in given], dtype=torch.float32))


# Two processes


@pytest.fixture(scope="module")
def both_in(tmp_path_factory):
    """The folder of two processes."""
    folder = tmp_path_factory.mktemp("both")
    launch("cpu/ddp.yaml", "tests.trainer.credit_worker", str(folder))
    return folder


@pytest.fixture(scope="module")
def one_in(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    credit_worker.main(str(folder))
    return folder


@pytest.fixture(scope="module")
def both(both_in):
    """Token weights of all rollouts by credit, from two processes."""
    first, second = (json.loads((both_in / f"{rank}.json").read_text()) for rank in range(2))
    return {credit: first[credit] + second[credit] for credit in credit_worker.CREDITS}


@pytest.fixture(scope="module")
def one(one_in):
    return json.loads((one_in / "0.json").read_text())


@pytest.mark.parametrize("credit", credit_worker.CREDITS)
def test_two_processes_weigh_as_one_does(both, one, credit):
    assert len({len(row) for row in one[credit]}) > 6, "ragged"
    assert [any(row) for row in one[credit]] == [True] * 6 + [False] + [True] + [False] * 4
    by_hand.assert_equal(both[credit], one[credit])


# What one process judges is known to all, so that no verdict differs between them


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    """What each of two processes judged, and knows in the end."""
    folder = tmp_path_factory.mktemp("judges")
    launch("cpu/ddp.yaml", "tests.trainer.verdicts_worker", str(folder))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_every_answer_is_judged_by_one_process_once(judges):
    first, second = (process["judged"] for process in judges)
    assert sorted(first) == [["1", "1"], ["2", "02"], ["3", "03"]]
    assert sorted(second) == [["2", "2"], ["3", "3"], ["4", "04"]]


def test_all_processes_know_the_same_though_they_judge_differently(judges):
    right, wrong, no_answer, no_truth = 1.0, 0.0, 0.0, None
    rewards = [right, right, wrong, right, wrong, right, no_answer, wrong, no_truth, no_truth]
    for process in judges:
        assert process["rewards"] == rewards
        assert process["answers"] == verdicts_worker.ANSWERS
        assert process["hypotheses"] == [["1"], ["2", "02"], ["3"], ["4", "04"], None]


def test_one_process_has_nobody_to_share_with(tmp_path):
    verdicts_worker.main(str(tmp_path))
    alone = json.loads((tmp_path / "0.json").read_text())
    assert alone["judged ahead"] == []
    assert alone["rewards"] == [1.0] * 6 + [0.0, 1.0, None, None]
    assert alone["hypotheses"] == [["1"], ["2"], ["3"], ["4"], None]
