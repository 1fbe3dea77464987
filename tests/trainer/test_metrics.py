"""What is logged, against plain loops over the records of the same run."""

import copy
import json
import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset

from barl_trl import extract_answer
from barl_trl.trainer.metrics import LOW
from barl_trl.trainer.records import FOLDER, read_records

from .. import reference
from . import by_hand, credit_worker
from .rollouts import (
    CASES,
    COMPLETIONS,
    HYPOTHESES,
    ROWS,
    config,
    given_rollouts,
    trainer,
    weights_of,
)

# Metrics


def mean(numbers):
    numbers = [*numbers]
    return fmean(numbers) if numbers else None


def entropy(belief):
    return -sum(b * math.log(b) for b in belief if b > 0)


def shift(belief):
    return sum(abs(a - b) for a, b in zip(belief[0], belief[-1], strict=True)) / 2


def explained(records):
    """R² of the tokens' weights with the outcomes, less the means of each prompt."""
    inside = []
    for group in {r["group"] for r in records}:
        own = [r for r in records if r["group"] == group]
        pairs = [(w, r["outcome"]) for r in own for w in r["token_weights"]]
        inside += [*(np.array(pairs) - np.mean(pairs, axis=0))]
    return np.corrcoef(np.array(inside).T)[0, 1] ** 2


def expected(records, credit="barl", size=4):
    """The metrics of a batch whose weights are not whitened; None for a mean of nothing."""
    groups = [records[n : n + size] for n in range(0, len(records), size)]
    usable = [own for own in groups if own[0]["solution"]]
    judged = [r for r in records if r["step_values"] is not None]
    metrics = {
        "unusable_truths": 1 - len(usable) / len(groups),
        "no_answer": fmean(r["answer"] is None for r in records),
        "outcome_r2": explained(judged),
    }
    if credit == "rloo":
        return metrics
    several = [r for r in judged if len(r["hypotheses"]) > 1]
    wrong = [r for r in records if r["member"]]
    ties = [
        [fmean(r["step_values"]) for r in own if r["step_values"]]
        for own in usable
        if len({r["outcome"] for r in own}) == 1
    ]
    metrics |= {
        "value": mean(fmean(r["step_values"]) for r in judged if r["step_values"]),
        "value_spread_equal_outcome": mean(map(np.std, ties)),
        "belief_shift": mean(shift(r["posterior"]) for r in several if r["step_values"]),
        "discrepancy": mean(
            fmean(reference.discrepancy(r["answer_logps"])[-1][1:]) for r in several
        ),
        "outcome_gain": mean(
            1 + row[0] - row[r["member"]] for r in wrong for row in r["posterior"][:-1]
        ),
        "hypotheses_per_prompt": fmean(len(own[0]["hypotheses"]) for own in usable),
        "steps_per_rollout": fmean(len(r["step_ends"]) for r in records),
        "scoring_tokens": sum(r["scored_tokens"] for r in records),
    }
    if credit == "barl":
        beliefs = [r["posterior"] for r in judged]
        metrics["posterior_entropy"] = fmean(fmean(map(entropy, belief)) for belief in beliefs)
        metrics["truth_mass"] = fmean(fmean(row[0] for row in belief) for belief in beliefs)
    return metrics


def assert_logged(logged, wanted):
    for name, value in wanted.items():
        if value is None:
            assert name not in logged
        else:
            assert logged[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    others = {*logged} - {*wanted}
    assert {name for name in others if "dropped/" not in name and "scoring_" not in name} == set()


@pytest.mark.parametrize("credit", ["barl", "belief_critic", "rloo"])
def test_metrics_are_what_loops_over_the_records_say(model, tokenizer, tmp_path, credit):
    """The outcomes of the first prompt are all 0; one answer is dropped, and one row unusable."""
    settings = {"credit": credit, "log_beliefs": True, "value_normalization": "none"}
    args = config(tmp_path, max_answer_chars=12, **settings)
    texts = [r"\boxed{1234567890123}", "", r"\boxed{0.5}", r"\boxed{7}"]
    made = trainer(
        copy.deepcopy(model),
        tokenizer,
        args,
        reward_funcs=lambda completions, **_: [float("0.5" in text) for text in completions],
        rollout_func=given_rollouts(COMPLETIONS | {"Half of one?": texts}),
    )
    weights_of(made, [*ROWS, *(row | {"solution": "{"} for row in ROWS[:4])])
    records = [*read_records(tmp_path / FOLDER)]
    for record in records[8:]:
        assert record["hypotheses"] is None
        record["solution"] = None
    metrics = {
        name.removeprefix("barl/"): values[-1]
        for name, values in made._metrics["train"].items()
        if name.startswith("barl/") and name != "barl/check_seconds"
    }
    assert_logged(metrics, expected(records, credit))
    if credit == "barl":
        assert metrics["dropped/too_long"] == 1 / 12
        assert metrics["value_spread_equal_outcome"] > 0


@pytest.mark.parametrize("credit", credit_worker.CREDITS)
def test_two_processes_log_as_one_does(both_in, one_in, credit):
    first, second = (json.loads((both_in / f"metrics-{n}.json").read_text()) for n in range(2))
    assert first == second
    records = [*read_records(both_in / credit / FOLDER)]
    assert_logged(first[credit], expected(records, credit))
    one = json.loads((one_in / "metrics-0.json").read_text())[credit]
    timeless = [name for name in one if "scoring_" not in name]  # a shared prompt is fed by both
    assert [first[credit][name] for name in timeless] == pytest.approx([*map(one.get, timeless)])


def test_the_table_has_barls_columns_and_mean_weights(
    model, tokenizer, tmp_path, expected_weights, capsys
):
    """And TRL prints it."""
    args = config(tmp_path, log_completions=True)
    made = trainer(copy.deepcopy(model), tokenizer, args, eval_dataset=Dataset.from_list(ROWS[::4]))
    made.train()
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, config(tmp_path / "other")))
    np.testing.assert_allclose(table["advantage"], [*map(np.mean, got)], atol=1e-5)
    assert [*map(list, table["hypotheses"])] == [HYPOTHESES[prompt] for prompt, *_ in CASES]
    np.testing.assert_allclose(table["step_values"][0], expected_weights[0][:-1:8], atol=1e-3)
    assert "guess" in capsys.readouterr().out
    log = made.state.log_history[0]
    assert 0 < log["barl/scoring_share_of_time"] < 1
    assert not any(name.startswith("sampling/") for name in log)
    made.evaluate()  # its rows have none of these columns
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert table["step_values"].isna().all()


# Lines


def said(caplog, about):
    return [record.getMessage() for record in caplog.records if about in record.getMessage()]


@pytest.mark.parametrize("name", LOW)
def test_a_metric_that_stays_low_is_explained_once(model, tokenizer, tmp_path, caplog, name):
    (bound, batches), _ = LOW[name]
    log = trainer(model, tokenizer, config(tmp_path))._batch_log

    def after(values):
        for value in values:
            log._advise({name: value}, [1])
        return len(said(caplog, f"barl/{name} is"))

    assert after([0.0] * (batches - 1) + [bound] + [0.0] * (batches - 1)) == 0
    assert after([0.0]) == 1
    assert after([0.0] * 2 * batches) == 1


@pytest.mark.parametrize(
    ("credit", "turns", "about"),
    [
        ({"credit": "barl"}, [2, 2], "credit='barl' with several turns"),
        ({"credit": "barl"}, [0, 1], None),
        ({"credit": "information_gain"}, [1, 3], "gain_normalization='joint'"),
        ({"credit": "information_gain"}, [3, 3], None),
        ({"credit": "delta_belief"}, [1, 2], "credit='delta_belief'"),
        ({"credit": "progress", "credit_baseline": "step"}, [1, 2], "credit_baseline='step'"),
        ({"credit": "belief_critic"}, [1, 2], None),
        ({"credit": "delta_belief"}, [0, 1], None),
    ],
)
def test_credits_that_mislead_with_turns_are_named(
    model, tokenizer, tmp_path, caplog, credit, turns, about
):
    log = trainer(model, tokenizer, config(tmp_path, **credit))._batch_log
    log._advise({}, turns)
    assert [about in text for text in said(caplog, "turns")] == [True] * (about is not None)


def test_a_loss_of_0_and_missing_answers_are_explained_once(model, tokenizer, tmp_path, caplog):
    trainer(model, tokenizer, config(tmp_path, max_steps=3)).train()
    assert len(said(caplog, "loss stays near 0")) == 1
    assert [text[:4] for text in said(caplog, "have no answer")] == ["25 %"]


def test_boxes_are_not_missed_where_answers_are_read_in_other_ways(
    model, tokenizer, tmp_path, caplog
):
    weights_of(trainer(model, tokenizer, config(tmp_path), answer_extractor=extract_answer))
    assert not said(caplog, "have no answer")


def test_sequences_longer_than_the_models_positions(model, tokenizer, tmp_path, caplog):
    trainer(model, tokenizer, config(tmp_path, max_completion_length=513))
    assert len(said(caplog, "513 tokens are more than the model's 512 positions")) == 1
    caplog.clear()
    texts = {prompt: ["1" * 600] for prompt in COMPLETIONS}
    made = trainer(model, tokenizer, config(tmp_path), rollout_func=given_rollouts(texts))
    assert not said(caplog, "positions")
    weights_of(made, ROWS[:1] * 8)
    assert len(said(caplog, "605 tokens are more than the model's 512 positions")) == 1


# Rewards


@pytest.mark.parametrize("missing", [None, math.nan])
def test_rewards_that_are_all_missing_are_said(model, tokenizer, tmp_path, caplog, missing):
    made = trainer(
        model,
        tokenizer,
        config(tmp_path, max_steps=2),
        reward_funcs=lambda completions, **_: [missing] * len(completions),
    )
    made.train()
    assert len(said(caplog, "no rollout of a batch of 8 has a reward")) == 1
    assert made.state.log_history[1]["grad_norm"] == 0


@pytest.mark.parametrize("first", [0, 1])
def test_infinite_rewards_are_refused_at_first_and_counted_later(model, tokenizer, tmp_path, first):
    def reward(completions, trainer_state, **_):
        is_ill = trainer_state.global_step >= first
        return [-math.inf if is_ill and n == 0 else 1.0 for n in range(len(completions))]

    args = config(tmp_path, max_steps=3, learning_rate=0.0)
    made = trainer(model, tokenizer, args, reward_funcs=reward)
    if not first:
        with pytest.raises(ValueError, match="reward must return finite rewards, got -inf"):
            made.train()
        return
    made.train()
    one, two, three = made.state.log_history[:3]
    assert "infinite_rewards" not in one
    assert two["infinite_rewards"] == three["infinite_rewards"] == 1 / 8
    assert two["reward"] == 1.0


# Clipped ratios, without vLLM: the rollouts and their log-probabilities are given

DIFFERENCES = [0.0, -0.9, 0.7, 1.5, math.log(3) + 0.01, -2.4]
"""Trainer's minus sampler's log-probability, of a completion's tokens in turn."""
MODES = ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]


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


@pytest.mark.parametrize("mode", MODES)
def test_gradient_is_the_sum_of_grad_log_pi_times_value_times_ratio(
    model, tokenizer, tmp_path, expected_weights, mode
):
    """The ratios are recorded, and the share that the bound changed is logged."""
    args = config(
        tmp_path,
        vllm_importance_sampling_mode=mode,
        value_normalization="none",
        loss_type="grpo",
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=1e9,
        log_beliefs=True,
    )
    made = corrected_trainer(model, tokenizer, args)
    made.train()
    loss, clipped, records = 0.0, [], read_records(tmp_path / FOLDER)
    for (prompt, completion, _), weights, record in zip(
        CASES, expected_weights, records, strict=True
    ):
        logps = by_hand.completion_logps(model, tokenizer, prompt, completion)
        raw, ratio = ratios(mode, len(logps))
        np.testing.assert_allclose(record["importance_ratios"], ratio, rtol=1e-3)
        clipped += [r > 3.0 for r in raw]
        loss = loss - (logps * torch.tensor(weights) * torch.tensor(ratio)).mean() / len(CASES)
    loss.backward()
    for before, after in zip(model.parameters(), made.model.parameters(), strict=True):
        torch.testing.assert_close(before - after, before.grad, atol=1e-5, rtol=1e-4)
    share = made.state.log_history[0]["sampling/importance_sampling_ratio/frac_clipped"]
    assert share == pytest.approx(fmean(clipped)) and 0 < share < 1


def test_evaluation_logs_its_own_share(model, tokenizer, tmp_path):
    made = corrected_trainer(model, tokenizer, config(tmp_path))
    made.eval_dataset = made.train_dataset
    metrics = made.evaluate()
    assert 0 < metrics["eval_sampling/importance_sampling_ratio/frac_clipped"] < 1
