"""`BARLTrainer` on rollouts that are given: weights and gradient, checked by hand."""

import copy
import math
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from accelerate.utils import send_to_device
from peft import LoraConfig
from trl import GRPOTrainer

from barl_trl.rewards import accuracy_reward
from barl_trl.steps import delimited_steps
from barl_trl.trainer.records import FOLDER, read_records
from barl_trl.trainer.trainer import FIRST_RATIO, Rows

from ..plausibility.models import GPT2, REENCODED, make
from ..tiny import tiny_model
from . import by_hand
from .rollouts import (
    CASES,
    COMPLETIONS,
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
    barl_trainer.model.train()
    output = barl_trainer._generate_and_score_completions(ROWS)
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
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


# Outcomes and tokens


def test_outcome_of_each_hypothesis(model, tokenizer, tmp_path):
    args = config(
        tmp_path, value_normalization="none", credit_options={"outcome_mode": "hypothesis"}
    )
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args))
    answered_wrong = {r"I guess \boxed{3}", r"\boxed{7}"}
    expected = [
        by_hand.token_weights(
            model, tokenizer, p, c, HYPOTHESES[p], [v, float(c in answered_wrong)]
        )
        for p, c, v in CASES
    ]
    by_hand.assert_equal(got, expected)


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
    by_hand.assert_equal(got, expected)


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
        rows = rows + PROBLEMS  # which come later: a set without any truth is refused
        barl_trainer = trainer(model, tokenizer, config(tmp_path), rows=rows, reward_funcs=one)
        barl_trainer.train()
        log = barl_trainer.state.log_history[0]
        assert log["barl/unusable_truths"] == share
        assert (log["grad_norm"] > 0) == (share < 1)


def test_nothing_behind_the_end_of_the_turn_is_weighed(
    model, tokenizer, tmp_path, expected_weights
):
    behind = [tokenizer.pad_token_id, tokenizer.eos_token_id]

    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        output["completion_ids"] = [ids + behind for ids in output["completion_ids"]]
        return output

    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, rollout_func=rollout_func))
    by_hand.assert_equal(got, [row + [0.0] * len(behind) for row in expected_weights])


def test_tokens_that_are_not_the_models_are_not_weighed(
    model, tokenizer, tmp_path, expected_weights
):
    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        masks = [[1] * len(ids) for ids in output["completion_ids"]]
        masks[0][2:4] = [0, 0]
        return output | {"env_mask": masks}

    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, rollout_func=rollout_func))
    expected_weights[0][2:4] = [0.0, 0.0]
    by_hand.assert_equal(got, expected_weights)


# Hypotheses and steps


def test_answer_extractor_and_equivalence_are_the_users(model, tokenizer, tmp_path):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_beliefs=True),
        answer_extractor=lambda text: text.split()[-1] if text else None,
        answer_equivalence=lambda a, b: False,
    )
    barl_trainer.train()
    first, *_ = read_records(tmp_path / FOLDER)
    assert first["hypotheses"] == ["2", r"\boxed{2}", r"\boxed{3}", "idea", r"\boxed{2.0}"]


def test_answers_that_become_no_hypothesis_are_dropped_and_counted(model, tokenizer, tmp_path):
    answers = {"long": "123456", "special": "<|im_start|>", "five": "5", "six": "6"}
    settings = {"max_answer_chars": 5, "max_hypotheses": 2, "per_device_train_batch_size": 4}
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path, log_beliefs=True, **settings),
        rows=PROBLEMS[:1],
        rollout_func=given_rollouts({"1+1?": list(answers)}),
        answer_extractor=answers.get,
    )
    barl_trainer.train()
    log = barl_trainer.state.log_history[0]
    reasons = ("too_long", "special_token", "over_max_hypotheses")
    assert [log[f"barl/dropped/{reason}"] for reason in reasons] == [0.25, 0.25, 0.25]
    first, *_ = read_records(tmp_path / FOLDER)
    assert first["hypotheses"] == ["2", "5"]


def test_step_segmenter_replaces_the_step_size(model, tokenizer, tmp_path):
    segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=",")
    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, step_segmenter=segmenter))
    comma = tokenizer.encode(COMPLETIONS["1+1?"][3]).index(tokenizer.encode(",")[0])
    assert len(set(got[3][: comma + 1])) == 1
    assert len(set(got[3][comma + 1 : -1])) == 1
    assert got[3][comma] != got[3][comma + 1]


@pytest.mark.parametrize("ends", [[4], [4, 4, 99], [99]])
def test_a_wrong_step_segmenter_is_named(model, tokenizer, tmp_path, ends):
    barl_trainer = trainer(
        model,
        tokenizer,
        config(tmp_path),
        step_segmenter=lambda ids: [4] if len(ids) == 4 else ends,  # four tokens are tried first
    )
    with pytest.raises(ValueError, match="step_segmenter must return strictly ascending ends"):
        barl_trainer.train()


def test_truncated_completions_are_scored_up_to_their_last_token(
    model, tokenizer, tmp_path, expected_weights
):
    rollouts = given_rollouts(cut_off=[completion for _, completion, _ in CASES])
    for masked in (False, True):
        args = config(tmp_path, value_normalization="none", mask_truncated_completions=masked)
        got = weights_of(trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollouts))
        expected = [row[:-1] for row in expected_weights]
        expected[5] = [0.0]  # an empty completion is its end of turn alone
        by_hand.assert_equal(got, [[], [], [], [], [], expected[5], [], []] if masked else expected)


# Old log-probabilities of models of all kinds

NO_DROPOUT = dict.fromkeys(
    ("resid_pdrop", "embd_pdrop", "attn_pdrop", "resid_dropout", "embed_dropout"), 0.0
) | {"attention_dropout": 0.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
UNEQUAL = [("1+1?", "2"), ("What is one half of the number one, as a fraction?", "1/2")]


def made(family, tokenizer):
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    settings = {"vocab_size": len(tokenizer), "bos_token_id": None, **special}
    if family == "qwen2":
        return tiny_model(tokenizer)
    if family == "dynamic":
        rope = {"max_position_embeddings": 32, "rope_parameters": dict(DYNAMIC)}
        return make("llama", **settings, **rope)
    sizes = GPT2 if family == "gpt2" else REENCODED[family]
    return make(family, **{**settings, **sizes, **NO_DROPOUT})


def frozen(tmp_path, **settings):
    """A rollout batch in four steps, in which the weights stay as they are."""
    settings = {"max_steps": 4, "max_completion_length": 16} | settings
    sizes = {"per_device_train_batch_size": 2, "steps_per_generation": 4}
    return config(tmp_path, learning_rate=0.0, **sizes, **settings)


def logs(run):
    run.train()
    return [log for log in run.state.log_history if "loss" in log]


@pytest.mark.parametrize("family", ["qwen2", "gpt2", "gpt_neo", "dynamic"])
def test_nothing_is_clipped_before_weights_change(family, tokenizer, tmp_path, caplog):
    """Both sides of an importance ratio come from the same kind of forward pass."""
    made(family, tokenizer).save_pretrained(tmp_path / "model")
    args = frozen(tmp_path, beta=0.1, max_steps=8)
    # the dataset begins with prompts of one length
    rows = [*UNEQUAL[:1] * 2, *UNEQUAL]
    run = trainer(str(tmp_path / "model"), tokenizer, args, rows=rows, rollout_func=None)
    first, *others = logs(run)
    assert len(others) == 7
    for log in (first, *others):
        assert log["clip_ratio/region_mean"] == 0
        assert log["kl"] == pytest.approx(0, abs=1e-6)
    assert first[FIRST_RATIO] == pytest.approx(1, abs=1e-5)
    assert not any(FIRST_RATIO in log for log in others)
    assert FIRST_RATIO not in caplog.text


def test_they_are_the_losss_where_the_correction_of_vllm_asks_for_them(tokenizer, tmp_path):
    """Of a model whose positions count the padding."""

    def sampled(prompts, trainer):
        ids = [tokenizer.encode(prompt) for prompt in prompts]
        words = [tokenizer.encode("is it 2")] * len(prompts)
        logprobs = [[-1.0] * len(row) for row in words]
        return {"prompt_ids": ids, "completion_ids": words, "logprobs": logprobs}

    args = config(tmp_path, learning_rate=0.0, max_steps=1, max_completion_length=16)
    run = trainer(made("gpt2", tokenizer), tokenizer, args, rows=UNEQUAL, rollout_func=sampled)
    # as of a trainer with vLLM that has handed over its weights
    run.use_vllm, run._last_loaded_step = True, 0
    (log,) = logs(run)
    assert "sampling/importance_sampling_ratio/mean" in log
    assert log[FIRST_RATIO] == pytest.approx(1, abs=1e-5)
    assert log["clip_ratio/region_mean"] == 0


def test_a_first_ratio_that_is_not_1_is_said(model, tokenizer, tmp_path, caplog):
    def changing(completions, **_):
        with torch.no_grad():
            model.lm_head.weight *= 1.1
        return [0.0] * len(completions)

    run = trainer(model, tokenizer, frozen(tmp_path), reward_funcs=["accuracy_reward", changing])
    first, *_ = logs(run)
    assert 1.1 < first[FIRST_RATIO] < 3
    said = f"{FIRST_RATIO} must be 1 within rounding, got {first[FIRST_RATIO]:.3g}: "
    assert caplog.text.count(said) == 1


def test_first_ratio_in_bfloat16_is_1_within_rounding(tokenizer, tmp_path, caplog):
    settings = {"bf16": True, "max_steps": 1}
    args = frozen(tmp_path, **settings)
    run = trainer(tiny_model(tokenizer), tokenizer, args, rows=UNEQUAL, rollout_func=None)
    (log,) = logs(run)
    assert 1 < log[FIRST_RATIO] < 1.15
    assert FIRST_RATIO not in caplog.text


# Rows of a batch on their way to the trainer


def test_rows_without_tensors_are_not_walked_through():
    rows = Rows([{"prompt": "a", "candidates": ["1", "2"]}, {"prompt": "b", "candidates": ["3"]}])
    assert send_to_device(rows, torch.device("cpu"), non_blocking=True) is rows
    assert rows == [{"prompt": "a", "candidates": ["1", "2"]}, {"prompt": "b", "candidates": ["3"]}]
    assert pickle.loads(pickle.dumps(rows)) == rows  # the loader may have processes


def test_tensors_in_rows_go_to_the_device():
    rows = Rows([{"prompt": "a", "image": torch.zeros(2)}])
    sent = send_to_device(rows, torch.device("meta"), non_blocking=True)
    assert isinstance(sent, Rows) and sent[0]["prompt"] == "a"
    assert sent[0]["image"].device.type == "meta" and rows[0]["image"].device.type == "cpu"


def test_a_batch_without_rows():
    assert send_to_device(Rows([]), torch.device("cpu")) == []
