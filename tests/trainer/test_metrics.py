"""What is logged, against plain loops over the records of the same run."""

import copy
import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from barl_trl.trainer.records import FOLDER, read_records

from .. import reference
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


def test_metrics_are_what_loops_over_the_records_say(model, tokenizer, tmp_path):
    """The outcomes of the first prompt are all 0; one answer is dropped, and one row unusable."""
    settings = {"log_beliefs": True, "value_normalization": "none"}
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
    assert_logged(metrics, expected(records))
    assert metrics["dropped/too_long"] == 1 / 12
    assert metrics["value_spread_equal_outcome"] > 0


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
    made.evaluate()  # its rows have none of these columns
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert table["step_values"].isna().all()


# Rewards


@pytest.mark.parametrize("missing", [None, math.nan])
def test_rewards_that_are_all_missing_train_nothing(model, tokenizer, tmp_path, caplog, missing):
    rewards = {"reward_funcs": lambda completions, **_: [missing] * len(completions)}
    made = trainer(model, tokenizer, config(tmp_path), **rewards)
    made.train()
    assert "has a reward" in caplog.text
    assert made.state.log_history[0]["grad_norm"] == 0


def test_infinite_rewards_are_refused_at_first_and_counted_later(model, tokenizer, tmp_path):
    first = 0

    def reward(completions, trainer_state, **_):
        is_ill = trainer_state.global_step >= first
        return [-math.inf if is_ill and n == 0 else 1.0 for n in range(len(completions))]

    args = config(tmp_path, max_steps=2, learning_rate=0.0)
    with pytest.raises(ValueError, match="finite"):
        trainer(model, tokenizer, args, reward_funcs=reward).train()
    first, made = 1, trainer(model, tokenizer, args, reward_funcs=reward)
    made.train()
    one, two, *_ = made.state.log_history
    assert "infinite_rewards" not in one
    assert two["infinite_rewards"] == 1 / 8 and two["reward"] == 1.0
