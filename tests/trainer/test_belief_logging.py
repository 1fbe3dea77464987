"""What `BARLTrainer` logs of its beliefs, and of the correction for what vLLM samples from and the
trainer scores.
"""

import copy
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from barl_trl import BARLTrainer, extract_answer
from barl_trl.hypotheses import DROP_REASONS
from barl_trl.rewards import accuracy_reward

from ..paths import ROOT
from ..report.inspector.rollouts import record_games
from . import by_hand
from .rollouts import CASES, HYPOTHESES, ROWS, config, given_rollouts, trainer, weights_of

# Beliefs


def test_metrics_and_table_show_barl_not_grpo(model, tokenizer, tmp_path, expected_weights):
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
    np.testing.assert_allclose(table["step_values"][0], expected_weights[0][:-1:8], atol=1e-3)


def test_of_many_hypotheses_the_table_and_the_console_have_the_likeliest(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    [record, *_] = record_games(tmp_path, size=400, log_completions=True)
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert len(record["hypotheses"]) == 400
    shown = table["hypotheses"][0]
    assert [*shown] == ["3", *(str(n) for n in range(1, 11) if n != 3)]
    assert max(map(len, table["hypotheses"])) <= 12
    assert "the truth: 3; other answers: 1, 2, 4, 5, 6, 7, 8, 9, 10 and 390 others" in (
        capsys.readouterr().out
    )


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


def logged(trainer_class, model, tokenizer, settings):
    barl_or_grpo = trainer_class(
        copy.deepcopy(model),
        accuracy_reward,
        settings,
        train_dataset=Dataset.from_list(ROWS),
        processing_class=tokenizer,
    )
    barl_or_grpo.train()
    return set(barl_or_grpo.state.log_history[0])


OF_TASKS = {
    *(f"barl/{name}_{when}" for name in ("entropy", "truth_mass") for when in ("before", "after")),
    *(f"barl/observations_{name}" for name in ("uninformative", "contradicted", "unusable")),
    *(f"barl/dropped/given_{name}" for name in (*DROP_REASONS, "no_text")),
    *(f"barl/unusable_{name}" for name in ("lists", "priors")),
    *("barl/belief_calibration", "barl/dropped/not_given", "barl/truth_not_given"),
    *("barl/answer_entropy", "barl/length_left"),
}
"""Metrics of beliefs from the task, of given hypotheses, and of prompts without a true answer."""


def test_every_metric_has_a_row_in_the_docs(model, tokenizer, tmp_path):
    barl = logged(BARLTrainer, model, tokenizer, config(tmp_path, log_beliefs=True))
    grpo = logged(GRPOTrainer, model, tokenizer, config(tmp_path))
    page = (ROOT / "docs" / "metrics.md").read_text()
    cells = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    explained = set(re.findall(r"`([^`]+)`", " ".join(cells)))
    assert barl - grpo - explained == set()
    # logged on occasion: with vLLM, where rewards are infinite
    rare = {"infinite_rewards", "sampling/importance_sampling_ratio/frac_clipped"}
    rare |= {"barl/value_spread_equal_outcome"}  # where all outcomes of a group are equal
    rare |= {"kl"}  # with a reference model
    rare |= {"barl/first_ratio"}  # with several optimizer steps per rollout batch
    # with agents
    rare |= {f"barl/{name}" for name in ("turns_per_rollout", "observation_gain")}
    rare |= {f"barl/{name}" for name in ("ended_in_call", "malformed_calls", "at_turn_limit")}
    rare |= {"barl/no_room_for_result"}
    assert {name for name in explained - barl if name not in OF_TASKS} <= rare


def advice_on(gains, barl_trainer, caplog):
    """What a trainer says when it has logged gains of the outcome, one after another."""
    for gain in gains:
        found = {"outcome_gain": gain, "outcome_gain_spread": 0.05, "outcome_r2": 0.99}
        for name, value in found.items():
            barl_trainer._metrics["train"][f"barl/{name}"].append(value)
        barl_trainer.log({})
    return [record.message for record in caplog.records if "barl/outcome_gain" in record.message]


def test_what_the_weights_do_is_said_once(model, tokenizer, tmp_path, caplog):
    barl_trainer = trainer(model, tokenizer, config(tmp_path))
    said = advice_on((1.02, 1.02, 0.45, 0.45), barl_trainer, caplog)
    assert ["plain RL. credit='grpo'" in text for text in said] == [True, False]
    assert said[1].endswith("Try consistency_beta=inf.")


def test_it_is_said_of_barls_weights_alone(model, tokenizer, tmp_path, caplog):
    barl_trainer = trainer(model, tokenizer, config(tmp_path, credit="gae_posterior"))
    assert advice_on((1.02, 0.45), barl_trainer, caplog) == []


def advice_on_extraction(barl_trainer, caplog):
    barl_trainer.train()
    return [record.message for record in caplog.records if "extraction=" in record.message]


def test_missing_answers_are_said_once_with_what_helps(model, tokenizer, tmp_path, caplog):
    said = advice_on_extraction(trainer(model, tokenizer, config(tmp_path, max_steps=3)), caplog)
    assert len(said) == 1
    assert said[0].startswith("25 % of the responses have no answer: they do not box it, or")


@pytest.mark.parametrize(
    ("settings", "kwargs"),
    [
        ({"extraction": "stated"}, {}),
        ({}, {"reward_funcs": "string"}),
        ({}, {"answer_extractor": extract_answer}),
    ],
)
def test_they_are_not_said_of_other_ways_to_read_answers(
    model, tokenizer, tmp_path, caplog, settings, kwargs
):
    barl_trainer = trainer(model, tokenizer, config(tmp_path, **settings), **kwargs)
    assert advice_on_extraction(barl_trainer, caplog) == []


# Clipped ratios, without vLLM: the rollouts and their log-probabilities are given

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
    model, tokenizer, tmp_path, expected_weights, mode
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
    for (prompt, completion, _), weights in zip(CASES, expected_weights, strict=True):
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
