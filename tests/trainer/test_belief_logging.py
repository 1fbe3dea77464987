"""The correction for what vLLM samples from and the trainer scores, without vLLM: the rollouts and
their log-probabilities are given.
"""

import copy
import math

import pytest
import torch

from . import by_hand
from .rollouts import config, given_rollouts, trainer
from .test_barl_trainer import CASES, weights_by_hand

DIFFERENCES = [0.0, -0.9, 0.7, 1.5, math.log(3) + 0.01, -2.4]
"""Trainer's minus sampler's log-probability, of a completion's tokens in turn."""


def differences(num_tokens):
    return [DIFFERENCES[k % len(DIFFERENCES)] for k in range(num_tokens)]


def corrected_trainer(model, tokenizer, args):
    """A trainer whose rollouts come with the log-probabilities of another sampler."""

    def rollout_func(prompts, trainer):
        rollouts = given_rollouts()(prompts, trainer)
        texts = [tokenizer.decode(ids[:-1]) for ids in rollouts["completion_ids"]]
        with torch.no_grad():
            logps = [
                by_hand.completion_logps(model, tokenizer, prompt, text)
                for prompt, text in zip(prompts, texts, strict=True)
            ]
        return rollouts | {
            "logprobs": [(row - torch.tensor(differences(len(row)))).tolist() for row in logps]
        }

    made = trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func)
    # as of a trainer with vLLM that has handed over its first weights
    made.use_vllm, made._last_loaded_step = True, 0
    return made


def ratios(mode, num_tokens):
    """Per token, before and after the bound 3."""
    logs = differences(num_tokens)
    if mode.startswith("sequence"):
        logs = [sum(logs)] * num_tokens
    raw = [math.exp(x) for x in logs]
    return raw, [min(r, 3.0) if mode.endswith("truncate") else r * (r <= 3.0) for r in raw]


MODES = ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]


@pytest.mark.parametrize("mode", MODES)
def test_gradient_is_the_sum_of_grad_log_pi_times_value_times_ratio(
    model, tokenizer, tmp_path, mode
):
    args = config(
        tmp_path,
        vllm_importance_sampling_mode=mode,
        value_normalization="none",
        loss_type="grpo",
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=1e9,
    )
    barl_trainer = corrected_trainer(model, tokenizer, args)
    barl_trainer.train()

    loss, clipped = 0.0, []
    weights_of_cases = weights_by_hand(model, tokenizer)
    for (prompt, completion, _), weights in zip(CASES, weights_of_cases, strict=True):
        logps = by_hand.completion_logps(model, tokenizer, prompt, completion)
        raw, ratio = ratios(mode, len(logps))
        clipped += [r > 3.0 for r in raw]
        loss = loss - (logps * torch.tensor(weights) * torch.tensor(ratio)).mean() / len(CASES)
    loss.backward()
    for before, after in zip(model.parameters(), barl_trainer.model.parameters(), strict=True):
        torch.testing.assert_close(before - after, before.grad, atol=1e-5, rtol=1e-4)

    log = barl_trainer.state.log_history[0]
    share = log["sampling/importance_sampling_ratio/frac_clipped"]
    assert share == pytest.approx(sum(clipped) / len(clipped))
    assert 0 < share < 1


def test_no_share_of_clipped_ratios_without_a_correction(model, tokenizer, tmp_path):
    barl_trainer = trainer(model, tokenizer, config(tmp_path))
    barl_trainer.train()
    assert not any(name.startswith("sampling/") for name in barl_trainer.state.log_history[0])


def test_evaluation_logs_its_own_share(model, tokenizer, tmp_path):
    barl_trainer = corrected_trainer(model, tokenizer, config(tmp_path))
    barl_trainer.eval_dataset = barl_trainer.train_dataset
    metrics = barl_trainer.evaluate()
    assert 0 < metrics["eval_sampling/importance_sampling_ratio/frac_clipped"] < 1
