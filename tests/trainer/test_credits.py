"""`BARLTrainer` with every credit, on rollouts that are given: token weights, checked by hand."""

import copy
from functools import partial

import pytest
import torch
from trl import GRPOTrainer

from barl_trl import BARLTrainer
from barl_trl.credit import CREDITS, Credit
from barl_trl.credit.outcome import for_all_steps

from .. import reference
from . import by_hand
from .rollouts import CASES, ROWS, config, given_rollouts, trainer, weights_of

CUT_OFF = [CASES[1][1], CASES[6][1]]

# What each computes where the configuration gives nothing but its name: its plain loops, the
# likelihood of answers, and the baseline.
OWN = {
    "barl": (reference.barl, "mean", "none"),
    "progress": (reference.progress, "mean", "none"),
    "grpo": (reference.grpo, "mean", "none"),
    "rloo": (reference.outcome, "mean", "leave_one_out"),
    "gae": (partial(reference.gae, gae_lambda=1.0), "mean", "none"),
    "gae_posterior": (partial(reference.gae_posterior, gae_lambda=1.0), "mean", "none"),
    "belief_critic": (
        partial(reference.belief_critic, gae_lambda=0.7, bootstrap_cut_off=True),
        "mean",
        "none",
    ),
    "information_gain": (reference.information_gain, "mean", "none"),
    "delta_belief": (reference.delta_belief, "sum", "none"),
    "bayes": (reference.bayes, "mean", "leave_one_out"),
    "rlpr": (reference.rlpr, "token_mean", "none"),
    "likelihood": (reference.likelihood, "sum", "leave_one_out"),
}

ESTIMATOR_SETTINGS = [
    ("barl", {"outcome_mode": "hypothesis"}),
    ("progress", {"progress_space": "log"}),
    ("information_gain", {"progress_space": "log"}),
    ("gae", {"gae_lambda": 0.5}),
    ("gae_posterior", {"gae_lambda": 0.0}),
    ("belief_critic", {"gae_lambda": 1.0, "bootstrap_cut_off": False}),
    ("bayes", {"information_weight": 0.5}),
]


def token_weights(model, tokenizer, twin, likelihood, baseline):
    """Those of the given rollouts, of which two were cut off, before whitening."""
    rollouts = by_hand.scored_rollouts(model, tokenizer, cut_off=CUT_OFF, reduction=likelihood)
    values = reference.subtract_baseline(twin(rollouts), rollouts, baseline)
    rows = [
        by_hand.over_tokens(tokenizer, completion, row)
        for row, (_, completion, _) in zip(values, CASES, strict=True)
    ]
    return [row[:-1] if r.is_cut_off else row for row, r in zip(rows, rollouts, strict=True)]


def credited(model, tokenizer, tmp_path, **settings):
    args = config(tmp_path, value_normalization="none", **settings)
    rollout_func = given_rollouts(cut_off=CUT_OFF)
    return trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func)


@pytest.mark.parametrize("credit", CREDITS)
def test_tokens_have_the_values_of_their_steps(model, tokenizer, tmp_path, credit):
    got = weights_of(credited(model, tokenizer, tmp_path, credit=credit))
    by_hand.assert_equal(got, token_weights(model, tokenizer, *OWN[credit]), atol=1e-4)


@pytest.mark.parametrize(("credit", "settings"), ESTIMATOR_SETTINGS)
def test_an_estimator_gets_its_settings(model, tokenizer, tmp_path, credit, settings):
    got = weights_of(credited(model, tokenizer, tmp_path, credit=credit, credit_options=settings))
    twin, likelihood, baseline = OWN[credit]
    expected = token_weights(model, tokenizer, partial(twin, **settings), likelihood, baseline)
    by_hand.assert_equal(got, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("credit", "likelihood"),
    [("progress", "sum"), ("progress", "token_mean"), ("likelihood", "mean")],
)
def test_answer_likelihood_replaces_the_credits_own(model, tokenizer, tmp_path, credit, likelihood):
    settings = {"credit": credit, "answer_likelihood": likelihood}
    got = weights_of(credited(model, tokenizer, tmp_path, **settings))
    twin, _, baseline = OWN[credit]
    expected = token_weights(model, tokenizer, twin, likelihood, baseline)
    by_hand.assert_equal(got, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("credit", "baseline"),
    [
        ("rloo", "none"),
        ("barl", "batch"),
        ("rloo", "group"),
        ("barl", "leave_one_out"),
        ("barl", "step"),
    ],
)
def test_credit_baseline_replaces_the_credits_own(model, tokenizer, tmp_path, credit, baseline):
    settings = {"credit": credit, "credit_baseline": baseline}
    got = weights_of(credited(model, tokenizer, tmp_path, **settings))
    twin, likelihood, _ = OWN[credit]
    by_hand.assert_equal(got, token_weights(model, tokenizer, twin, likelihood, baseline))


# Nothing is scored


def brevity(completions, **_):
    """A reward, but none for one completion."""
    return [None if text == "no idea" else -len(text) / 10 for text in completions]


def test_grpo_is_trls(model, tokenizer, tmp_path):
    args = config(tmp_path, credit="grpo", optim="sgd", learning_rate=1.0, max_grad_norm=1e9)
    own, trls = (
        trainer(copy.deepcopy(model), tokenizer, args, cls=cls, reward_funcs=brevity)
        for cls in (BARLTrainer, GRPOTrainer)
    )
    got = weights_of(own)
    trls.model.train()
    advantages = trls._generate_and_score_completions(ROWS)["advantages"].tolist()
    assert advantages[2] == 0
    by_hand.assert_equal(
        got, [[a] * len(row) for a, row in zip(advantages, got, strict=True)], atol=1e-6
    )
    own.train()
    trls.train()
    for parameter, expected in zip(own.model.parameters(), trls.model.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("credit", ["grpo", "rloo"])
def test_without_scores_there_is_no_pass_that_scores_and_no_belief_to_log(
    model, tokenizer, tmp_path, credit
):
    barl_trainer = credited(model, tokenizer, tmp_path, credit=credit)
    with_gradient = []
    barl_trainer.model.register_forward_pre_hook(
        lambda *_: with_gradient.append(torch.is_grad_enabled())
    )
    barl_trainer.train()
    assert with_gradient == [True]
    log = barl_trainer.state.log_history[0]
    assert log["barl/outcome_r2"] == pytest.approx(1)
    beliefs = {"posterior_entropy", "truth_mass", "discrepancy", "value", "scoring_tokens"}
    assert not {f"barl/{name}" for name in beliefs} & log.keys()


def test_with_the_truth_alone_there_is_no_belief_to_compare(model, tokenizer, tmp_path):
    barl_trainer = credited(model, tokenizer, tmp_path, credit="progress")
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    assert log["barl/scoring_tokens"] > 0
    assert not {"barl/truth_mass", "barl/posterior_entropy"} & log.keys()


def test_old_log_probabilities_are_then_trls(model, tokenizer, tmp_path):
    options = {"per_device_train_batch_size": 4, "steps_per_generation": 2}
    barl_trainer = credited(model, tokenizer, tmp_path, credit="rloo", **options)
    barl_trainer.model.train()
    output = barl_trainer._generate_and_score_completions(ROWS)
    for (prompt, completion, _), logps in zip(CASES, output["old_per_token_logps"], strict=True):
        expected = by_hand.completion_logps(model, tokenizer, prompt, completion)
        num_tokens = len(expected) - (completion in CUT_OFF)
        torch.testing.assert_close(logps[:num_tokens], expected[:num_tokens], atol=1e-4, rtol=0)


# A user's own


def by_step_size(rollouts, *, step_size):
    return for_all_steps(rollouts.outcomes * step_size, rollouts)


BY_STEP_SIZE = Credit(
    by_step_size, hypotheses="none", credit_baseline="group", value_normalization="none"
)


@pytest.mark.parametrize(("name", "mean"), [("by_step_size", 0), ("BY_STEP_SIZE", 4)])
def test_a_credit_of_the_users_own_gets_the_settings_it_names(
    model, tokenizer, tmp_path, name, mean
):
    barl_trainer = credited(model, tokenizer, tmp_path, credit=f"{__name__}.{name}")
    for row, (_, _, outcome) in zip(weights_of(barl_trainer), CASES, strict=True):
        assert set(row) == {8 * outcome - mean}
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    assert log["grad_norm"] > 0
    assert ("barl/truth_mass" in log) == (name == "by_step_size")
