"""`BARLTrainer` on rollouts that are given: weights and gradient, checked by hand."""

import copy
import math

import numpy as np
import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from ..tiny import tiny_model
from . import by_hand
from .rollouts import (
    CASES,
    HYPOTHESES,
    OUTCOMES,
    PROBLEMS,
    ROWS,
    STATED,
    config,
    given_rollouts,
    trainer,
    weights_of,
)


@pytest.mark.parametrize(
    ("method", "reduction", "beta", "temperature"),
    [
        ("shared_prefix", "mean", 1.0, 1.0),
        ("shared_prefix", "sum", math.inf, 1.0),
        ("reencode", "mean", 0.0, 2.0),
    ],
)
def test_every_token_has_the_posterior_weighted_value_of_its_step(
    model, tokenizer, tmp_path, method, reduction, beta, temperature
):
    args = config(
        tmp_path,
        value_normalization="none",
        scoring_method=method,
        answer_likelihood=reduction,
        consistency_beta=beta,
        plausibility_temperature=temperature,
    )
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args))
    likelihood = {"reduction": reduction, "temperature": temperature}
    by_hand.assert_equal(got, by_hand.weights(model, tokenizer, beta=beta, **likelihood))


def test_gradient_of_one_step_is_the_sum_of_grad_log_pi_times_value(
    model, tokenizer, tmp_path, expected_weights
):
    args = config(
        tmp_path,
        value_normalization="none",
        loss_type="grpo",
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=1e9,
    )
    trained = copy.deepcopy(model)
    trainer(trained, tokenizer, args).train()

    loss = 0.0
    for (prompt, completion, _), weights in zip(CASES, expected_weights, strict=True):
        logps = by_hand.completion_logps(model, tokenizer, prompt, completion)
        loss = loss - (logps * torch.tensor(weights)).mean() / len(CASES)
    loss.backward()
    for before, after in zip(model.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(before - after, before.grad, atol=1e-5, rtol=1e-4)


def test_whitening_over_the_batch_and_within_groups(model, tokenizer, tmp_path, expected_weights):
    for normalization, groups in [("batch", [range(8)]), ("group", [range(4), range(4, 8)])]:
        args = config(tmp_path, value_normalization=normalization)
        got = weights_of(trainer(copy.deepcopy(model), tokenizer, args))
        for group in groups:
            flat = np.concatenate([expected_weights[b] for b in group])
            want = [(np.array(expected_weights[b]) - flat.mean()) / flat.std() for b in group]
            by_hand.assert_equal([got[b] for b in group], want, atol=1e-3)


def test_completions_without_answers_and_empty_ones_are_trained_on(model, tokenizer, tmp_path):
    silent = {prompt: ["", "no idea"] for prompt, _ in PROBLEMS}
    barl_trainer = trainer(model, tokenizer, config(tmp_path), rollout_func=given_rollouts(silent))
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    assert log["barl/no_answer"] == 1.0
    assert log["barl/hypotheses_per_prompt"] == 1.0
    assert math.isfinite(log["grad_norm"])


def test_statements_are_hypotheses_and_rewarded_where_they_are_asked_for(
    model, tokenizer, tmp_path
):
    args = config(tmp_path, extraction="stated", value_normalization="none")
    given = {"rollout_func": given_rollouts(STATED)}
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, **given))
    by_hand.assert_equal(
        got,
        [
            by_hand.token_weights(model, tokenizer, prompt, text, HYPOTHESES[prompt], outcome)
            for prompt in STATED
            for text, outcome in zip(STATED[prompt], OUTCOMES[prompt], strict=True)
        ],
    )
    strict = trainer(copy.deepcopy(model), tokenizer, config(tmp_path), **given)
    weights_of(strict)
    assert strict._metrics["train"]["barl/no_answer"] == [7 / 8]


def test_evaluation_is_left_to_trl(model, tokenizer, tmp_path):
    args = config(tmp_path, log_completions=True)
    barl_trainer = trainer(model, tokenizer, args)
    barl_trainer.eval_dataset = barl_trainer.train_dataset
    metrics = barl_trainer.evaluate()
    assert metrics["eval_reward"] == 0.5
    assert not any("barl" in name for name in metrics)
    barl_trainer.train()  # the table has rows of both kinds now


def stale(tmp_path, **kwargs):
    """A configuration under which rollouts outlive an optimizer step: TRL needs the old
    log-probabilities."""
    options = {"per_device_train_batch_size": 4, "steps_per_generation": 2}
    return config(tmp_path, value_normalization="none", **{**options, **kwargs})


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
@pytest.mark.parametrize("adapter", [False, True])
def test_old_log_probabilities_come_out_of_the_scoring_pass(
    model, tokenizer, tmp_path, method, adapter
):
    args = stale(tmp_path, scoring_method=method, temperature=0.7, beta=0.1 * adapter)
    lora = LoraConfig(r=4, init_lora_weights=False) if adapter else None
    barl_trainer = trainer(copy.deepcopy(model), tokenizer, args, peft_config=lora)
    fed = []
    barl_trainer.model.register_forward_pre_hook(
        lambda _, args, kwargs: fed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    barl_trainer.model.train()
    output = barl_trainer._generate_and_score_completions(ROWS)
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    if method == "shared_prefix" and not adapter:  # an adapter's reference goes through it, too
        assert barl_trainer._batch.scored.likelihoods.num_tokens == fed[-1], "for both"
    with torch.no_grad():
        expected, _, _ = GRPOTrainer._get_per_token_logps_and_entropies(
            barl_trainer, barl_trainer.model, ids, mask, output["completion_ids"].shape[1]
        )
    kept = output["completion_mask"].bool()
    got = output["old_per_token_logps"]
    torch.testing.assert_close(got[kept], expected[kept], atol=1e-4, rtol=0)
    assert got[kept].std() > 0.5
    if adapter:
        assert not torch.allclose(got[kept], output["ref_per_token_logps"][kept], atol=1e-2)


def test_token_weights_are_the_same_when_old_log_probabilities_are_read_with_them(
    model, tokenizer, tmp_path, expected_weights
):
    alone = weights_of(trainer(model, tokenizer, stale(tmp_path)))
    by_hand.assert_equal(alone, expected_weights)


def test_slices_of_a_rollout_batch_keep_the_weights_of_their_rollouts(
    model, tokenizer, tmp_path, expected_weights
):
    settings = {"per_device_train_batch_size": 2, "steps_per_generation": 4, "max_steps": 1}
    args = config(tmp_path, value_normalization="none", **settings)
    barl_trainer = trainer(model, tokenizer, args)
    barl_trainer.train()
    expected = dict(zip([c for _, c, _ in CASES], expected_weights, strict=True))
    seen = []
    for piece in barl_trainer._buffered_inputs:
        for ids, mask, weights in zip(
            piece["completion_ids"],
            piece["completion_mask"].bool(),
            piece["advantages"],
            strict=True,
        ):
            text = tokenizer.decode(ids[mask][:-1])
            seen.append(text)
            np.testing.assert_allclose(weights[mask], expected[text], atol=1e-5)
    assert sorted(seen) == sorted(expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_iterations": 2, "max_steps": 2},
        {"per_device_train_batch_size": 2, "steps_per_generation": 4, "max_steps": 4},
        {"loss_type": "cispo", "epsilon_high": 5.0},
        {"gradient_checkpointing": False, "temperature": 0.7, "plausibility_temperature": 2.0},
    ],
    ids=["two updates per rollout", "a rollout in four steps", "cispo", "temperatures"],
)
def test_trl_features_go_through(model, tokenizer, tmp_path, settings):
    before = copy.deepcopy(model)
    args = config(tmp_path, learning_rate=1e-3, **settings)
    barl_trainer = trainer(model, tokenizer, args)
    barl_trainer.train()
    assert all(
        math.isfinite(log["grad_norm"]) for log in barl_trainer.state.log_history if "loss" in log
    )
    assert not torch.equal(before.lm_head.weight, model.lm_head.weight)


def test_lora_with_kl_against_the_adapter_free_model(model, tokenizer, tmp_path, expected_weights):
    args = config(tmp_path, learning_rate=1e-2, beta=0.04, max_steps=2, value_normalization="none")
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    barl_trainer = trainer(model, tokenizer, args, peft_config=lora)
    by_hand.assert_equal(weights_of(barl_trainer), expected_weights)
    barl_trainer.train()
    assert barl_trainer.state.log_history[1]["kl"] > 0
    assert (
        barl_trainer.state.log_history[1]["barl/value"]
        != barl_trainer.state.log_history[0]["barl/value"]
    )


def test_two_seeded_runs_with_sampled_rollouts_are_equal(tokenizer, tmp_path):
    runs = []
    for _ in range(2):
        args = config(tmp_path, learning_rate=1e-3, max_steps=3, max_completion_length=24)
        barl_trainer = trainer(tiny_model(tokenizer), tokenizer, args, rollout_func=None)
        barl_trainer.train()
        runs.append(barl_trainer.model.lm_head.weight.detach().clone())
    assert torch.equal(*runs)


def test_model_card_and_tags_name_barl(model, tokenizer, tmp_path):
    barl_trainer = trainer(model, tokenizer, config(tmp_path, save_strategy="steps", save_steps=1))
    barl_trainer.train()
    card = (tmp_path / "README.md").read_text()
    assert "2505.20561" in card
    assert {"trl", "barl"} <= set(barl_trainer.model.model_tags)
