"""Numbers of the page, beside plain loops."""

import math

import numpy as np
import pytest

from barl_trl.credit import CREDITS
from barl_trl.inspector.derived import derive

from .. import reference
from .rollouts import (
    METADATA,
    Recorder,
    TaskRecorder,
    foretold,
    make_batch,
    make_record,
    metadata_of,
)


def test_posterior_values_and_their_sum_are_the_papers():
    records = make_batch(0)
    for record, numbers in zip(records, derive(records, METADATA), strict=True):
        ell, v = record["answer_logps"], [record["outcome"]] * 3
        np.testing.assert_allclose(numbers.p, np.exp(ell), atol=1e-6)
        np.testing.assert_allclose(numbers.w, reference.posterior(ell, 1.0), atol=1e-5)
        np.testing.assert_allclose(numbers.q, reference.q_values(ell, v), atol=1e-5)
        np.testing.assert_allclose(numbers.v, v)
        expected = reference.posterior_weighted_values(ell, v, 1.0)
        np.testing.assert_allclose(numbers.values, expected, atol=1e-5)
        np.testing.assert_allclose(numbers.methods["barl"], expected, atol=1e-5)
        of_group = [r["outcome"] for r in records if r["group"] == record["group"]]
        flat = reference.standardized(record["outcome"], of_group)
        np.testing.assert_allclose(numbers.methods["grpo"], flat, atol=1e-5)


def test_recorded_weights_are_averaged_over_steps():
    record = make_record(1)
    record["token_weights"][:3] = [0.0, 1.0, 5.0]
    [numbers] = derive([record], METADATA)
    expected = [2.0] + [record["token_weights"][3 * t] for t in (1, 2, 3)]
    np.testing.assert_allclose(numbers.weights, expected, atol=1e-6)


def test_without_weights_step_values_are_standardised_as_in_training():
    nothing = {"token_weights": None, "step_values": None}
    records = [r | {"token_weights": None} for r in make_batch(0)]
    *found, longest = derive([*records, make_record(99, group=7, steps=30) | nothing], METADATA)
    assert longest.weights.tolist() == [0] * 30
    values = np.concatenate([r["step_values"] for r in records])
    for record, numbers in zip(records, found, strict=True):
        white = (np.array(record["step_values"]) - values.mean()) / values.std()
        np.testing.assert_allclose(numbers.weights, white, atol=1e-4)
    assert not any(one.weights.any() for one in derive([r | nothing for r in records], METADATA))


def unscored(record):
    return record | dict.fromkeys(
        ("hypotheses", "answer_logps", "posterior", "step_values", "member")
    )


def test_run_without_beliefs_has_outcome_credits_alone():
    records = [unscored(r) for r in make_batch(0)]
    for numbers in derive(records, metadata_of(credit="grpo")):
        assert (numbers.p, numbers.w, numbers.q, numbers.values) == (None,) * 4
        assert set(numbers.methods) == {"grpo", "rloo"}


def test_unscored_rollout_beside_scored_ones_changes_none():
    others = make_batch(0, groups=2)
    odd = unscored(make_record(99, group=7, steps=5)) | {"outcome": None}
    alone, together = derive(others, METADATA), derive([*others, odd], METADATA)
    for before, after in zip(alone, together, strict=False):
        assert {*before.methods} == {*after.methods} == {*CREDITS} - {"bayes", "turns"}
        for name in before.methods:
            np.testing.assert_allclose(after.methods[name], before.methods[name], atol=1e-5)
    assert together[-1].w is None and together[-1].methods == {}


@pytest.mark.parametrize(
    ("belief", "entropy"),
    [([0.25] * 4, 1.0), ([1.0, 0.0], 0.0), ([1.0], 0.0), ([0.5, 0.5, 0.0], math.log(2, 3))],
)
def test_entropy_is_a_share_of_the_largest(belief, entropy):
    record = make_record(1, steps=1, size=len(belief)) | {"posterior": [belief] * 2}
    [numbers] = derive([record], METADATA)
    np.testing.assert_allclose(numbers.entropy, [entropy] * 2, atol=1e-6)


# What training wrote

NON_DEFAULT = [
    *[{"outcome_mode": "hypothesis", "answer_likelihood": "sum"}, {"outcome_mode": "hypothesis"}],
    *[{"answer_likelihood": "sum"}, {"answer_likelihood": "token_mean"}],
    *[{"consistency_beta": math.inf}, {"consistency_beta": 0.0}, {"plausibility_temperature": 0.5}],
    *[{"max_hypotheses": 2}, {"value_normalization": "group"}, {"value_normalization": "none"}],
    {"credit": "progress", "progress_space": "log"},
    {"credit": "information_gain", "progress_space": "log"},
    *[{"credit": "gae", "gae_lambda": 0.5}, {"credit": "gae_posterior", "gae_lambda": 0.0}],
    {"credit": "belief_critic", "gae_lambda": 1.0, "bootstrap_cut_off": False},
    *(
        {"credit": credit, "credit_baseline": baseline}
        for baseline in ("batch", "group", "leave_one_out", "step", "belief", "none")
        for credit in ("barl", "rloo")
    ),
]


@pytest.fixture(scope="module")
def recorder(tokenizer, tmp_path_factory):
    return Recorder(tokenizer, tmp_path_factory.mktemp("recorded"))


@pytest.mark.filterwarnings("ignore:.*docs/credit.md")
@pytest.mark.parametrize(
    "settings", [*({"credit": credit} for credit in CREDITS), *NON_DEFAULT], ids=str
)
def test_values_are_those_that_training_recorded(recorder, settings):
    records, metadata = recorder.records(**settings)
    credit, baseline = (metadata["settings"][name] for name in ("credit", "credit_baseline"))
    judged = [r["step_values"] is not None for r in records]
    if credit == "bayes":  # it needs neither truth nor outcome
        assert judged == [True] * 12
    elif credit == "turns":  # it needs an outcome alone
        assert judged == [True, True, False] + [True] * 9
    else:
        assert judged == [True, True, False] + [True] * 5 + [False] * 4
    for record, numbers in zip(records, derive(records, metadata), strict=True):
        assert numbers.difference is None
        if record["step_values"] is None:
            assert numbers.values is None and numbers.methods == {}
            continue
        np.testing.assert_allclose(numbers.methods[credit], record["step_values"], atol=1e-5)
        if credit == "barl" and baseline == "none":
            np.testing.assert_allclose(numbers.values, record["step_values"], atol=1e-5)


def outcome_under(answer, hypothesis):
    return 1 / (1 + abs(len(answer) - len(hypothesis)))


OF_TASKS = [
    *(
        {"credit": credit, "belief": belief}
        for credit in ("bayes", "barl", "belief_critic", "gae_posterior")
        for belief in ("task", "both")
    ),
    *({"credit": credit, "belief": "task"} for credit in ("progress", "rloo")),
    {"credit": "bayes", "information_weight": 0.3, "credit_baseline": "none"},
    {"credit": "bayes", "functions": {"outcome_under": outcome_under}},
    {"credit": "belief_critic", "functions": {"outcome_under": outcome_under}},
    {"credit": "bayes", "belief": "both", "functions": {"hypothesis_rewards": foretold}},
    {"credit": "barl", "functions": {"hypothesis_rewards": foretold}},
    {"credit": "barl", "consistency_beta": math.inf, "functions": {"hypothesis_rewards": foretold}},
]


@pytest.fixture(scope="module")
def task_recorder(tokenizer, tmp_path_factory):
    return TaskRecorder(tokenizer, tmp_path_factory.mktemp("task"))


def _id(settings):
    return str(settings | {"functions": [*settings.get("functions", ())]})


@pytest.mark.filterwarnings("ignore:.*docs/credit.md")
@pytest.mark.parametrize("settings", OF_TASKS, ids=_id)
def test_values_under_the_belief_of_a_task_are_those_that_training_recorded(
    task_recorder, settings
):
    records, metadata = task_recorder.records(**settings)
    credit, functions = settings["credit"], settings.get("functions", {})
    is_bayes = credit == "bayes"
    derived = derive(records, metadata)
    for record, numbers in zip(records, derived, strict=True):
        assert numbers.difference is None
        is_scored = record["hypotheses"] is not None
        has_under = "outcome_under" in functions and is_scored and record["answer"] is not None
        assert (record["outcomes_under"] is not None) == has_under
        has_rewards = "hypothesis_rewards" in functions and is_scored
        assert (record["predicted_rewards"] is not None) == has_rewards
        if record["step_values"] is None:
            assert numbers.values is None and numbers.methods == {}
            continue
        np.testing.assert_allclose(numbers.methods[credit], record["step_values"], atol=1e-5)
        if credit == "barl":
            np.testing.assert_allclose(numbers.values, record["step_values"], atol=1e-5)
        if credit != "rloo":
            assert record["cost"] == pytest.approx(0.5 * record["rewards"][1])
    assert [r["has_truth"] for r in records[8:]] == [False if is_bayes else None] * 4
    if is_bayes:
        assert [*derived[8].methods] == ["bayes"]  # the others need a truth


def test_what_bayes_shows_adds_up(task_recorder):
    settings = {"information_weight": 0.3, "credit_baseline": "none"}
    records, metadata = task_recorder.records(credit="bayes", **settings)
    for record, numbers in zip(records, derive(records, metadata), strict=True):
        last, member = record["posterior"][-1], record["member"]
        assert numbers.q is None
        v = [2.0 * (i == member) for i in range(len(last))]  # 2 is the weight of the reward
        np.testing.assert_allclose(numbers.v, v)
        expected = sum(b * x for b, x in zip(last, v, strict=True)) + record["cost"]
        assert numbers.expected == pytest.approx(expected, abs=1e-5)
        entropies = [*map(reference.entropy, record["posterior"])]
        values = [expected + 0.3 * (entropy - entropies[-1]) for entropy in entropies[:-1]]
        np.testing.assert_allclose(numbers.values, values, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*docs/credit.md")
@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ({"outcome_mode": "hypothesis"}, {}),
        ({}, {"outcome_mode": "hypothesis"}),
        ({"credit": "gae", "gae_lambda": 0.0}, {"credit": "gae"}),
        ({"credit": "rloo"}, {"credit": "rloo", "credit_baseline": "none"}),
    ],
)
def test_values_that_the_settings_do_not_give_are_told(recorder, recorded, said):
    records, _ = recorder.records(**recorded)
    found = derive(records, metadata_of(**said))
    apart = [
        np.abs(numbers.methods[said.get("credit", "barl")] - record["step_values"]).max(initial=0)
        for record, numbers in zip(records, found, strict=True)
        if record["step_values"] is not None
    ]
    assert max(apart) > 0.1
    told = [numbers.difference for numbers in found if numbers.methods]
    assert told == [pytest.approx(most) if most > 1e-3 else None for most in apart]


def test_a_credit_that_is_not_known_here_is_left_out():
    metadata = metadata_of() | {"settings": METADATA["settings"] | {"credit": "mine.credit"}}
    for one in derive(make_batch(0), metadata):
        assert {*one.methods} == {*CREDITS} - {"bayes", "turns"} and one.difference is None
