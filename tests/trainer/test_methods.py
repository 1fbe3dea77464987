"""The trainer of each method: BARL's, and baselines that have all that is not BARL's."""

import copy
from functools import partial

import pytest
import torch
from datasets import Dataset

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.trainer import make_trainer
from barl_trl.trainer.barl_fields import method_settings

from ..tiny import tiny_model
from . import by_hand
from .rollouts import (
    CASES,
    OUTCOMES,
    PROBLEMS,
    ROWS,
    STATED,
    config,
    given_rollouts,
    trainer,
    weights_of,
)

BASELINES = ["progress", "rloo", "belief_critic", "grpo", "grpo_length_controlled"]


def trainer_of(method, model, tokenizer, args, **kwargs):
    return trainer(model, tokenizer, args, cls=partial(make_trainer, method), **kwargs)


# Settings


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("barl", {}),
        ("progress", {"credit": "progress"}),
        ("rloo", {"credit": "rloo"}),
        ("barl_trl.credit.gae.gae", {"credit": "barl_trl.credit.gae.gae"}),
        ("grpo", {}),
        ("grpo_length_controlled", {"max_completion_length": 32}),
    ],
)
def test_a_method_changes_nothing_else_in_the_settings(tmp_path, method, changed):
    args = config(tmp_path)
    given = dict(vars(args))
    assert vars(method_settings(method, args)) == given | changed
    assert vars(args) == given  # other arms are made of them


@pytest.mark.parametrize(("given", "expected"), [(None, 32), (33, 32), (16, 16)])
def test_length_control_makes_no_completion_longer(tmp_path, given, expected):
    args = config(tmp_path, max_completion_length=given)
    changed = method_settings("grpo_length_controlled", args)
    assert changed.max_completion_length == expected


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (
            "ppo",
            {},
            r"method must be one of \['barl', 'progress', 'grpo', .*\] or a dotted path, got 'ppo'",
        ),
        (
            "progress",
            {"outcome_mode": "hypothesis"},
            "outcome_mode must be 'ground_truth' with credit='progress', got 'hypothesis': it is",
        ),
        (
            "barl",
            {"gae_lambda": 0.9},
            "gae_lambda must be None with credit='barl', got 0.9: it is a setting of gae, "
            "gae_posterior, belief_critic.",
        ),
        ("gae", {"bootstrap_cut_off": True}, "bootstrap_cut_off must be None with credit='gae'"),
        ("nowhere.credit", {}, "credit must be a dotted path that can be imported, got 'nowhere."),
        ("grpo", {"credit": "rloo"}, "credit must be left out with method='grpo', got 'rloo'"),
    ],
)
def test_refused_before_a_model_is_loaded(tmp_path, method, settings, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(method, model="nowhere", args=config(tmp_path, **settings))


def without_eos(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.eos_token = None
    return tokenizer


def no_reward(completions, **_):
    return [0.0 for _ in completions]


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            {"reward_funcs": [no_reward, partial(no_reward)]},
            "reward_funcs must have names of their own, got 'no_reward' 2 times",
        ),
        ({"tokenizer": without_eos}, "processing_class must have an EOS token, got none"),
        ({"settings": {"report_to": ["dvclive"]}}, "report_to must name installed trackers"),
    ],
    ids=["names", "end", "tracker"],
)
def test_grpo_has_the_same_mistakes(tokenizer, tmp_path, mistake, message):
    tokenizer = mistake.get("tokenizer", copy.deepcopy)(tokenizer)
    given = {"reward_funcs": mistake.get("reward_funcs", no_reward)}
    with pytest.raises(ValueError, match=message):
        trainer_of(
            "grpo", "./nowhere", tokenizer, config(tmp_path, **mistake.get("settings", {})), **given
        )


def test_a_setting_of_the_methods_credit_is_taken(tmp_path):
    assert method_settings("gae", config(tmp_path, gae_lambda=0.9)).gae_lambda == 0.9


@pytest.mark.parametrize(
    ("method", "unused"),
    [
        ("barl", None),
        ("progress", "credit='progress' does not use consistency_beta=2.0."),
        ("rloo", "credit='rloo' does not use consistency_beta=2.0, elicitation='So'."),
        ("grpo", "method='grpo' does not use step_size=8, elicitation='So', consistency_beta=2.0."),
    ],
)
def test_settings_that_change_nothing_are_named(model, tokenizer, tmp_path, caplog, method, unused):
    args = config(tmp_path, consistency_beta=2.0, elicitation="So")
    trainer_of(method, model, tokenizer, args)
    said = [r.getMessage() for r in caplog.records if "does not use" in r.getMessage()]
    assert said == ([unused] if unused else [])


# Weights


def test_progress_baseline_has_the_truth_as_its_only_hypothesis(model, tokenizer, tmp_path):
    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer_of("progress", copy.deepcopy(model), tokenizer, args))
    truths = dict(PROBLEMS)
    expected = [by_hand.token_weights(model, tokenizer, p, c, [truths[p]], v) for p, c, v in CASES]
    by_hand.assert_equal(got, expected)


def test_grpo_weighs_a_completion_by_its_outcome_among_its_groups(model, tokenizer, tmp_path):
    """TRL's own; what only BARL takes is left out."""
    grpo = trainer_of(
        "grpo",
        model,
        tokenizer,
        config(tmp_path),
        answer_extractor=str.upper,
        answer_equivalence=str.__eq__,
        step_segmenter=lambda ids: [99],
    )
    grpo.model.train()
    got = grpo._generate_and_score_completions(ROWS)["advantages"]
    outcomes = torch.tensor(list(OUTCOMES.values()))
    deviations = outcomes - outcomes.mean(dim=1, keepdim=True)
    expected = deviations / (outcomes.std(dim=1, keepdim=True) + 1e-4)
    torch.testing.assert_close(got, expected.flatten())
    assert not isinstance(grpo, BARLTrainer)


@pytest.mark.parametrize("reward", ["math_verify", accuracy_reward])
def test_grpo_is_rewarded_for_statements_where_they_are_asked_for(
    model, tokenizer, tmp_path, reward
):
    args = config(tmp_path, extraction="stated")
    given = {"rollout_func": given_rollouts(STATED), "reward_funcs": reward}
    grpo = trainer_of("grpo", model, tokenizer, args, **given)
    advantages = grpo._generate_and_score_completions(ROWS)["advantages"]
    assert ((advantages > 0) == torch.tensor([*OUTCOMES.values()]).bool().flatten()).all()


# What baselines have in common with BARL


def loudness(completions, **_):
    """A reward on which the completions of random weights differ."""
    return [sum(map(ord, text)) % 7 / 7 for text in completions]


@pytest.mark.slow
@pytest.mark.parametrize("method", BASELINES)
def test_a_baseline_evaluates_benchmarks_and_resumes_in_the_middle_of_a_rollout_batch(
    tokenizer, tmp_path, method
):
    def train(checkpoint=None):
        args = config(
            tmp_path,
            per_device_train_batch_size=4,
            steps_per_generation=2,
            max_completion_length=8,
            max_steps=4,
            learning_rate=1e-2,
            save_strategy="steps",
            save_steps=3,
            eval_strategy="steps",
            eval_steps=4,
        )
        made = trainer_of(
            method,
            tiny_model(tokenizer),
            tokenizer,
            args,
            rollout_func=None,
            reward_funcs=loudness,
            benchmarks={"sums": Dataset.from_list([{"prompt": "1+1?", "solution": "2"}])},
        )
        made.train(checkpoint)
        return made

    whole, resumed = train(), train(str(tmp_path / "checkpoint-3"))
    assert whole.state.log_history[3]["grad_norm"] > 0
    for parameter, expected in zip(
        resumed.model.parameters(), whole.model.parameters(), strict=True
    ):
        torch.testing.assert_close(parameter, expected, rtol=0, atol=0)
    for run in (whole, resumed):
        [evaluated] = [log for log in run.state.log_history if "eval_accuracy" in log]
        assert {"eval_sums/accuracy", "eval_sums/mean_tokens"} <= evaluated.keys()
