"""`BARLTrainer` on rollouts that are given: hypotheses, weights, gradient and logs, checked by
hand.
"""

import copy
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from barl_trl.rewards import accuracy_reward
from barl_trl.steps import delimited_steps

from ..tiny import tiny_model
from . import by_hand
from .rollouts import COMPLETIONS, PROBLEMS, config, given_rollouts, trainer

# The surface form that is scored is the most frequent one: "0.5" and "2.0" join the truth, which
# was seen more often.
HYPOTHESES = {"1+1?": ["2", "3"], "Half of one?": [r"\frac{1}{2}", "7"]}
OUTCOMES = {"1+1?": [1.0, 0.0, 0.0, 1.0], "Half of one?": [1.0, 0.0, 1.0, 0.0]}
CASES = [
    (prompt, completion, outcome)
    for prompt in COMPLETIONS
    for completion, outcome in zip(COMPLETIONS[prompt], OUTCOMES[prompt], strict=True)
]


def weights_of(barl_trainer):
    """Token weights of the given rollouts, in their order, without padding."""
    barl_trainer.model.train()
    rows = [
        {"prompt": prompt, "solution": solution} for prompt, solution in PROBLEMS for _ in range(4)
    ]
    output = barl_trainer._generate_and_score_completions(rows)
    lengths = output["completion_mask"].sum(1)
    return [row[:n].tolist() for row, n in zip(output["advantages"], lengths, strict=True)]


def weights_by_hand(model, tokenizer, **kwargs):
    return [
        by_hand.token_weights(
            model, tokenizer, prompt, completion, HYPOTHESES[prompt], outcome, **kwargs
        )
        for prompt, completion, outcome in CASES
    ]


def assert_equal(got, expected, atol=1e-5):
    for row, want in zip(got, expected, strict=True):
        np.testing.assert_allclose(row, want, atol=atol)


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
    assert_equal(got, weights_by_hand(model, tokenizer, beta=beta, **likelihood))


def test_gradient_of_one_step_is_the_sum_of_grad_log_pi_times_value(model, tokenizer, tmp_path):
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
    for (prompt, completion, _), weights in zip(
        CASES, weights_by_hand(model, tokenizer), strict=True
    ):
        logps = by_hand.completion_logps(model, tokenizer, prompt, completion)
        loss = loss - (logps * torch.tensor(weights)).mean() / len(CASES)
    loss.backward()
    for before, after in zip(model.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(before - after, before.grad, atol=1e-5, rtol=1e-4)


def test_whitening_over_the_batch_and_within_groups(model, tokenizer, tmp_path):
    expected = weights_by_hand(model, tokenizer)
    for normalization, groups in [("batch", [range(8)]), ("group", [range(4), range(4, 8)])]:
        got = weights_of(
            trainer(
                copy.deepcopy(model), tokenizer, config(tmp_path, value_normalization=normalization)
            )
        )
        for group in groups:
            flat = np.concatenate([expected[b] for b in group])
            want = [(np.array(expected[b]) - flat.mean()) / flat.std() for b in group]
            assert_equal([got[b] for b in group], want, atol=1e-3)


def test_progress_baseline_has_the_truth_as_its_only_hypothesis(model, tokenizer, tmp_path):
    args = config(tmp_path, value_normalization="none", hypotheses="truth")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args))
    truths = dict(PROBLEMS)
    expected = [by_hand.token_weights(model, tokenizer, p, c, [truths[p]], v) for p, c, v in CASES]
    assert_equal(got, expected)


def test_outcome_of_each_hypothesis(model, tokenizer, tmp_path):
    args = config(tmp_path, value_normalization="none", outcome_mode="hypothesis")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args))
    answered_wrong = {r"I guess \boxed{3}", r"\boxed{7}"}
    expected = [
        by_hand.token_weights(
            model, tokenizer, p, c, HYPOTHESES[p], [v, float(c in answered_wrong)]
        )
        for p, c, v in CASES
    ]
    assert_equal(got, expected)


def test_outcome_reward_is_the_weighted_sum_of_the_reward_functions(model, tokenizer, tmp_path):
    def brevity(completions, **kwargs):
        return [-len(c) / 10 for c in completions]

    args = config(tmp_path, value_normalization="none", reward_weights=[2.0, 0.5])
    got = weights_of(
        trainer(copy.deepcopy(model), tokenizer, args, reward_funcs=[accuracy_reward, brevity])
    )
    expected = [
        by_hand.token_weights(model, tokenizer, p, c, HYPOTHESES[p], 2 * v - len(c) / 20)
        for p, c, v in CASES
    ]
    assert_equal(got, expected)


def test_step_segmenter_replaces_the_step_size(model, tokenizer, tmp_path):
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=",")
    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, step_segmenter=segmenter))
    comma = tokenizer.encode(COMPLETIONS["1+1?"][3]).index(tokenizer.encode(",")[0])
    assert len(set(got[3][: comma + 1])) == 1
    assert len(set(got[3][comma + 1 : -1])) == 1
    assert got[3][comma] != got[3][comma + 1]


def test_answer_extractor_and_equivalence_are_the_users(model, tokenizer, tmp_path):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_completions=True),
        answer_extractor=lambda text: text.split()[-1] if text else None,
        answer_equivalence=lambda a, b: False,
    )
    barl_trainer.train()
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert list(table["hypotheses"][0]) == ["2", r"\boxed{2}", r"\boxed{3}", "idea", r"\boxed{2.0}"]


def test_unscorable_rollouts_and_unusable_truths_weigh_nothing_and_are_counted(
    model, tokenizer, tmp_path
):
    def some(completions, **kwargs):
        return [None if "guess" in c else 1.0 for c in completions]

    def one(completions, **kwargs):
        return [1.0 for _ in completions]

    barl_trainer = trainer(model, tokenizer, config(tmp_path), reward_funcs=some)
    got = weights_of(barl_trainer)
    assert not any(got[1])
    assert any(got[0])

    unusable = ("Half of one?", "9" * 10_000)
    for rows, share in [([PROBLEMS[0], unusable], 0.5), ([("1+1?", None), unusable], 1.0)]:
        barl_trainer = trainer(model, tokenizer, config(tmp_path), rows=rows, reward_funcs=one)
        barl_trainer.train()
        log = barl_trainer.state.log_history[0]
        assert log["barl/unusable_truths"] == share
        assert (log["grad_norm"] > 0) == (share < 1)


def test_answers_that_become_no_hypothesis_are_dropped_and_counted(model, tokenizer, tmp_path):
    answers = {"long": "123456", "special": "<|im_start|>", "five": "5", "six": "6"}
    settings = {"max_answer_chars": 5, "max_hypotheses": 2, "per_device_train_batch_size": 4}
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_completions=True, **settings),
        rows=PROBLEMS[:1],
        rollout_func=given_rollouts({"1+1?": list(answers)}),
        answer_extractor=answers.__getitem__,
    )
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    reasons = ("too_long", "special_token", "over_max_hypotheses")
    assert [log[f"barl/dropped/{reason}"] for reason in reasons] == [0.25, 0.25, 0.25]
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert list(table["hypotheses"][0]) == ["2", "5"]


def test_completions_without_answers_and_empty_ones_are_trained_on(model, tokenizer, tmp_path):
    silent = {prompt: ["", "no idea"] for prompt, _ in PROBLEMS}
    barl_trainer = trainer(model, tokenizer, config(tmp_path), rollout_func=given_rollouts(silent))
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    assert log["barl/no_answer"] == 1.0
    assert log["barl/hypotheses_per_prompt"] == 1.0
    assert math.isfinite(log["grad_norm"])


def test_truncated_completions_are_scored_up_to_their_last_token(model, tokenizer, tmp_path):
    rollouts = given_rollouts(end_of_turn=False)
    for masked in (False, True):
        args = config(tmp_path, value_normalization="none", mask_truncated_completions=masked)
        got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollouts))
        expected = [row[:-1] for row in weights_by_hand(model, tokenizer)]
        expected[5] = [0.0]  # an empty completion is its end of turn alone
        assert_equal(got, [[], [], [], [], [], expected[5], [], []] if masked else expected)


def test_metrics_and_table_show_barl_not_grpo(model, tokenizer, tmp_path):
    barl_trainer = trainer(copy.deepcopy(model), tokenizer, config(tmp_path, log_completions=True))
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    assert log["barl/hypotheses_per_prompt"] == 2.0
    assert log["barl/no_answer"] == 0.25
    assert 0 < log["barl/scoring_share_of_time"] < 1
    assert 0 <= log["barl/posterior_entropy"] <= math.log(2)
    assert 0 <= log["barl/truth_mass"] <= 1
    assert log["barl/scoring_tokens"] > 0

    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, config(tmp_path)))
    np.testing.assert_allclose(table["advantage"], [np.mean(row) for row in got], atol=1e-5)
    assert list(table["hypotheses"][4]) == HYPOTHESES["Half of one?"]
    raw = weights_by_hand(model, tokenizer)
    np.testing.assert_allclose(table["step_values"][0], raw[0][:-1:8], atol=1e-3)


def test_value_spread_is_that_of_groups_with_equal_outcomes(model, tokenizer, tmp_path):
    barl_trainer = trainer(
        copy.deepcopy(model),
        tokenizer,
        config(tmp_path, value_normalization="none"),
        reward_funcs=lambda completions, **_: [
            float("half" in c or "0.5" in c) for c in completions
        ],
    )
    barl_trainer.train()  # only the first group's outcomes are equal: all 0
    means = []
    for _, completion, _ in CASES[:4]:
        chain = by_hand.token_weights(
            model, tokenizer, "1+1?", completion, HYPOTHESES["1+1?"], 0.0
        )[:-1]
        means.append(np.mean(chain[::8]))
    log = barl_trainer.state.log_history[0]
    np.testing.assert_allclose(log["barl/value_spread_equal_outcome"], np.std(means), atol=1e-5)


def test_evaluation_is_left_to_trl(model, tokenizer, tmp_path):
    args = config(tmp_path, log_completions=True)
    barl_trainer = trainer(model, tokenizer, args)
    barl_trainer.eval_dataset = barl_trainer.train_dataset
    metrics = barl_trainer.evaluate()
    assert metrics["eval_reward"] == 0.5
    assert not any("barl" in name for name in metrics)
    barl_trainer.train()  # the table has rows of both kinds now


def test_nothing_behind_the_end_of_the_turn_is_weighed(model, tokenizer, tmp_path):
    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        output["completion_ids"] = [
            ids + tokenizer.encode(" more") for ids in output["completion_ids"]
        ]
        return output

    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func))
    tail = [0.0] * len(tokenizer.encode(" more"))
    assert_equal(got, [row + tail for row in weights_by_hand(model, tokenizer)])


def test_tokens_that_are_not_the_models_are_not_weighed(model, tokenizer, tmp_path):
    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        masks = [[1] * len(ids) for ids in output["completion_ids"]]
        masks[0][2:4] = [0, 0]
        return output | {"env_mask": masks}

    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func))
    expected = weights_by_hand(model, tokenizer)
    expected[0][2:4] = [0.0, 0.0]
    assert_equal(got, expected)


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
    rows = [{"prompt": p, "solution": s} for p, s in PROBLEMS for _ in range(4)]
    output = barl_trainer._generate_and_score_completions(rows)
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    if method == "shared_prefix" and not adapter:  # an adapter's reference goes through it, too
        assert barl_trainer._batch.scored.likelihoods.num_tokens == fed[-1], "one pass for both"
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
    model, tokenizer, tmp_path
):
    alone = weights_of(trainer(copy.deepcopy(model), tokenizer, stale(tmp_path)))
    assert_equal(alone, weights_by_hand(model, tokenizer))


@pytest.mark.parametrize("ends", [[4], [4, 4, 99], [99]])
def test_a_wrong_step_segmenter_is_named(model, tokenizer, tmp_path, ends):
    barl_trainer = trainer(model, tokenizer, config(tmp_path), step_segmenter=lambda ids: ends)
    with pytest.raises(ValueError, match="step_segmenter must return strictly ascending ends"):
        barl_trainer.train()


def test_slices_of_a_rollout_batch_keep_the_weights_of_their_rollouts(model, tokenizer, tmp_path):
    settings = {"per_device_train_batch_size": 2, "steps_per_generation": 4, "max_steps": 1}
    args = config(tmp_path, value_normalization="none", **settings)
    barl_trainer = trainer(copy.deepcopy(model), tokenizer, args)
    barl_trainer.train()
    expected = dict(zip([c for _, c, _ in CASES], weights_by_hand(model, tokenizer), strict=True))
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


def test_kl_against_the_reference_model(model_path, tokenizer, tmp_path):
    args = config(tmp_path, learning_rate=1e-2, beta=0.04, max_steps=2)
    barl_trainer = trainer(model_path, tokenizer, args)
    barl_trainer.train()
    assert barl_trainer.state.log_history[1]["kl"] > 0


def test_lora_with_kl_against_the_adapter_free_model(model, tokenizer, tmp_path):
    args = config(tmp_path, learning_rate=1e-2, beta=0.04, max_steps=2, value_normalization="none")
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    barl_trainer = trainer(model, tokenizer, args, peft_config=lora)
    assert_equal(weights_of(barl_trainer), weights_by_hand(tiny_model(tokenizer), tokenizer))
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
