"""What is recorded and logged, against plain loops and what TRL is handed."""

import math
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

from barl_trl.inspector.rows import groups_of
from barl_trl.trainer.records import (
    FOLDER,
    SCHEMA,
    file_name,
    read_file,
    read_metadata,
    read_records,
    record_files,
)

from .. import reference
from ..inspector.rollouts import record_agents, write_records
from .rollouts import (
    CASES,
    COMPLETIONS,
    HYPOTHESES,
    MEMBERS,
    OUTCOMES,
    PROBLEMS,
    ROWS,
    config,
    given_rollouts,
    trainer,
    weights_of,
)
from .test_weights import CUT_OFF, given

BELIEFS = {"hypotheses", "member", "answer_logps", "posterior", "scored_tokens"}


@pytest.fixture
def recorded(make, tmp_path):
    """The records of the given rollouts, their weights as TRL gets them, and the trainer."""

    def recorded(rows=ROWS, cut_off=(), **given):
        made = make(log_beliefs=True, rollout_func=given_rollouts(cut_off=cut_off), **given)
        weights = weights_of(made, rows)
        return [*read_records(tmp_path / FOLDER)], weights, made

    return recorded


def approx(numbers, atol=1e-4):
    return pytest.approx(numbers, abs=atol, rel=0)


def assert_close(rows, expected):
    for row, wanted in zip(rows, expected, strict=True):
        np.testing.assert_allclose(row, wanted, atol=1e-4)


# One batch


def test_records_are_what_loops_compute(tokenizer, recorded, tmp_path):
    records, weights, made = recorded(cut_off=CUT_OFF)
    for n, (record, one, case) in enumerate(zip(records, given(), CASES, strict=True)):
        prompt, completion, v = case
        own, end = tokenizer.encode(completion), [tokenizer.eos_token_id] * (not one.is_cut_off)
        expected = {"step": 1, "group": n // 4, "rollout": n, "prompt": prompt}
        expected |= {"solution": dict(PROBLEMS)[prompt], "hypotheses": HYPOTHESES[prompt]}
        expected |= {"token_ids": (ids := own + end), "member": MEMBERS[prompt][n % 4]}
        expected |= {"step_ends": [*range(8, len(own), 8), *[len(own)] * bool(own)]}
        expected |= {"rewards": [v], "outcome": v, "is_cut_off": completion in CUT_OFF}
        expected |= {"advantage": approx(reference.standardized(v, OUTCOMES[prompt]))}
        expected |= {"token_logps": None, "importance_ratios": None}
        assert {name: record[name] for name in expected} == expected
        assert "".join(record["tokens"]) == tokenizer.decode(ids)
        assert_close(record["answer_logps"], one.logps)
        assert_close(record["posterior"], reference.posterior(record["answer_logps"], 1.0))
        values = reference.posterior_weighted_values(one.logps, [v, v], 1.0)
        assert record["step_values"] == approx(values)
        assert record["token_weights"] == approx(weights[n], 1e-6)
    assert [*records[0]] == SCHEMA.names
    assert [record["answer"] for record in records[:4]] == ["2", "3", None, "2.0"]
    assert records[0]["reason"] == "equal strings" and records[2]["reason"] == "no answer"
    assert len({record["prompt_id"] for record in records}) == 2
    metadata = read_metadata(tmp_path / FOLDER / file_name(1))
    expected = {"source": "training", "num_generations": 4, "temperature": 1.0}
    expected |= {"reward_names": ["accuracy_reward"], "reward_weights": [1.0]}
    assert metadata.items() >= expected.items() and metadata["settings"] == made.args.settings
    assert 0 < metadata["seconds"]["scoring"] < metadata["seconds"]["rollouts"]
    tokens = made._metrics["train"]["barl/scoring_tokens"][-1]
    assert sum(record["scored_tokens"] for record in records) == tokens > 0


def test_what_is_not_judged_has_no_value_and_no_weight(recorded):
    def all_but_the_guess(completions, **_):
        return [None if "guess" in text else 0.5 for text in completions]

    rows = [*ROWS[:4], *(row | {"solution": None} for row in ROWS[4:])]
    records, _, _ = recorded(rows=rows, reward_funcs=all_but_the_guess)
    guess, unusable = records[1], records[4:]
    assert np.isnan(guess["rewards"]).all() and guess["outcome"] is None
    assert guess["posterior"] is not None and guess["reason"] is None
    for record in unusable:
        assert record["rewards"] == [0.5] and record["outcome"] == 0.5
        assert all(record[name] is None for name in BELIEFS - {"scored_tokens"})
        assert record["solution"] is None and record["scored_tokens"] == 0
    for record in (guess, *unusable):
        assert record["step_values"] is None
        assert set(record["token_weights"]) == {0.0}
        assert len(record["token_weights"]) == len(record["tokens"])
    assert records[0]["step_values"] and any(records[0]["token_weights"])


# Agents


@pytest.mark.filterwarnings("ignore:.*docs/method.md")
def test_turns_of_agents_are_recorded(tmp_path):
    trainer, records = record_agents(tmp_path, "barl")
    twice, once = ["look", "look"], ["look"]
    tools = [[twice, once, []], None, [once, []], [once, once, []]]
    assert [r["observed_tools"] for r in records] == tools
    assert [r["ended_in_call"] for r in records] == [False, False, False, True]
    masks = trainer.generated.masks
    prompts = map(trainer._tokenizer.decode, trainer.generated.prompt_ids)
    assert [r["prompt"] for r in records] == [*prompts]
    assert [r["own_tokens"] for r in records] == [masks[0], None, *masks[2:]]
    for record, turns in zip(records, trainer.scored.turns, strict=True):
        stops = [turn.stop for turn in turns]
        assert record["turn_ends"] == (stops if len(stops) > 1 else None)
        assert record["step_ends"][:-1] == stops[:-1]


# A run


def steps_of(folder):
    return [path.name for _, path in record_files(folder / FOLDER)]


def steps_on_the_page(folder):
    files = [read_file(path) for _, path in record_files(folder / FOLDER)]
    return [group.head[0] for said, records in files for group in groups_of(records, said)]


def test_a_step_of_several_batches_has_a_file_for_each(make, tmp_path):
    """Log, records and page count alike."""
    batches = {"gradient_accumulation_steps": 2, "steps_per_generation": 1, "max_steps": 2}
    for _ in range(2):  # the second run does all of it anew
        made = make(log_beliefs=True, overwrite_output_dir=True, rows=PROBLEMS * 2, **batches)
        made.train()
        assert [log["step"] for log in made.state.log_history if "reward" in log] == [1, 2]
        assert steps_on_the_page(tmp_path) == [1] * 4 + [2] * 4
        names = [file_name(1), file_name(1, 1), file_name(2), file_name(2, 1)]
        assert steps_of(tmp_path) == names
        places = [(r["step"], r["group"], r["rollout"]) for r in read_records(tmp_path / FOLDER)]
        expected = [(step, n // 4, n) for step in (1, 2) for n in range(16)]
        assert places == expected


def test_a_resumed_run_forgets_what_it_does_again(model_path, tokenizer, tmp_path):
    def run(resume=None, **settings):
        batches = {"per_device_train_batch_size": 4, "steps_per_generation": 2}
        saves = {"save_strategy": "steps", "save_steps": 2}
        args = config(tmp_path, log_beliefs=True, **batches | saves | settings)
        made = trainer(model_path, tokenizer, args)
        made.train(resume)
        logged = [log["step"] for log in made.state.log_history if "reward" in log]
        assert logged == [*dict.fromkeys(steps_on_the_page(tmp_path))]

    run(max_steps=4)
    assert steps_of(tmp_path) == [file_name(1), file_name(3)]
    before = [*read_records(tmp_path / FOLDER)]
    for step in (4, 8):  # of a run with other batches that was killed
        write_records(tmp_path / FOLDER / file_name(step), before[:1], {})
    run(str(tmp_path / "checkpoint-2"), max_steps=6)
    assert steps_of(tmp_path) == [file_name(1), file_name(3), file_name(5)]
    after = [*read_records(tmp_path / FOLDER)]
    np.testing.assert_equal(after[: len(before)], before)
    assert {record["step"] for record in after[len(before) :]} == {5}
    found = read_metadata(tmp_path / FOLDER / file_name(3))["seconds"]
    assert found["since_batch_before"] is None  # it was another process's


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
    if credit == "rloo":  # without truths
        return metrics | dict.fromkeys(("unusable_truths", "no_answer"))
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
        beliefs = [r["posterior"] for r in several]
        metrics["posterior_entropy"] = mean(fmean(map(entropy, belief)) for belief in beliefs)
        metrics["truth_mass"] = mean(fmean(row[0] for row in belief) for belief in beliefs)
    return metrics


def assert_logged(logged, wanted):
    for name, value in wanted.items():
        if value is None:
            assert name not in logged
        else:
            assert logged[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    others = {*logged} - {*wanted}
    assert {name for name in others if "dropped/" not in name and "scoring_" not in name} == set()


def test_metrics_are_what_loops_over_the_records_say(make, tmp_path):
    """The outcomes of the first prompt are all 0; one answer is dropped, and one row unusable.

    The rollouts of the last prompt have one hypothesis: they count for no metric of the belief.
    """
    texts = [r"\boxed{1234567890123}", "", r"\boxed{0.5}", r"\boxed{7}"]
    made = make(
        **{"log_beliefs": True, "value_normalization": "none", "max_answer_chars": 12},
        reward_funcs=lambda completions, **_: [float("0.5" in text) for text in completions],
        rollout_func=given_rollouts(COMPLETIONS | {"Half of one?": texts, "Who?": ["no idea"]}),
    )
    alone = [{"prompt": "Who?", "solution": "I"}] * 4
    weights_of(made, [*ROWS, *(row | {"solution": "{"} for row in ROWS[:4]), *alone])
    records = [*read_records(tmp_path / FOLDER)]
    assert records[-1]["hypotheses"] == ["I"]
    for record in records[8:12]:
        assert record["hypotheses"] is None
        record["solution"] = None
    metrics = {
        name.removeprefix("barl/"): values[-1]
        for name, values in made._metrics["train"].items()
        if name.startswith("barl/") and name != "barl/check_seconds"
    }
    assert_logged(metrics, expected(records))
    assert metrics["dropped/too_long"] == 1 / 16
    assert metrics["value_spread_equal_outcome"] > 0


def test_the_table_has_barls_columns_and_mean_weights(make, tmp_path, expected_weights, capsys):
    """And TRL prints it."""
    made = make(log_completions=True, eval_dataset=Dataset.from_list(ROWS[::4]))
    made.train()
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    got = weights_of(make(tmp_path / "other"))
    np.testing.assert_allclose(table["advantage"], [*map(np.mean, got)], atol=1e-5)
    assert [*map(list, table["hypotheses"])] == [HYPOTHESES[prompt] for prompt, *_ in CASES]
    np.testing.assert_allclose(table["step_values"][0], expected_weights[0][:-1:8], atol=1e-3)
    assert "guess" in capsys.readouterr().out
    log = made.state.log_history[0]
    assert 0 < log["barl/scoring_share_of_time"] < 1
    made.evaluate()  # its rows have none of these columns
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert table["step_values"].isna().all()


@pytest.mark.parametrize("missing", [None, math.nan])
def test_rewards_that_are_all_missing_train_nothing(make, caplog, missing):
    made = make(reward_funcs=lambda completions, **_: [missing] * len(completions))
    made.train()
    assert "has a reward" in caplog.text and made.state.log_history[0]["grad_norm"] == 0


def test_infinite_rewards_are_refused_at_first_and_counted_later(make):
    first = 0

    def reward(completions, trainer_state, **_):
        is_ill = trainer_state.global_step >= first
        return [-math.inf if is_ill and n == 0 else 1.0 for n in range(len(completions))]

    given = {"max_steps": 2, "learning_rate": 0.0, "reward_funcs": reward}
    with pytest.raises(ValueError, match="finite"):
        make(**given).train()
    first, made = 1, make(**given)
    made.train()
    one, two, *_ = made.state.log_history
    assert "infinite_rewards" not in one
    assert two["infinite_rewards"] == 1 / 8 and two["reward"] == 1.0
