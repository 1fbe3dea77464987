"""What `log_beliefs` writes, against plain loops and what TRL is handed."""

import copy

import numpy as np
import pytest

from barl_trl.inspector.derived import derive
from barl_trl.trainer.records import (
    FOLDER,
    SCHEMA,
    file_name,
    read_metadata,
    read_records,
    record_files,
)

from .. import reference
from ..inspector.rollouts import record_agents, write_records
from .rollouts import (
    CASES,
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
def recorded(model, tokenizer, tmp_path):
    """The records of the given rollouts, their weights as TRL gets them, and the trainer."""

    def make(rows=ROWS, cut_off=(), reward_funcs=None, **settings):
        args = config(tmp_path, log_beliefs=True, **settings)
        rewards = {} if reward_funcs is None else {"reward_funcs": reward_funcs}
        rollout_func = given_rollouts(cut_off=cut_off)
        made = trainer(copy.deepcopy(model), tokenizer, args, rollout_func=rollout_func, **rewards)
        weights = weights_of(made, rows)
        return [*read_records(tmp_path / FOLDER)], weights, made

    return make


def approx(numbers, atol=1e-4):
    return pytest.approx(numbers, abs=atol, rel=0)


def assert_close(rows, expected):
    for row, wanted in zip(rows, expected, strict=True):
        np.testing.assert_allclose(row, wanted, atol=1e-4)


# One batch


def test_records_are_what_loops_compute(tokenizer, recorded):
    records, weights, made = recorded(cut_off=CUT_OFF)
    for n, (record, one, (prompt, completion, v)) in enumerate(
        zip(records, given(), CASES, strict=True)
    ):
        ids = tokenizer.encode(completion) + [tokenizer.eos_token_id] * (not one.is_cut_off)
        outcomes = OUTCOMES[prompt]
        expected = {
            "step": 0,
            "group": n // 4,
            "rollout": n,
            "prompt": prompt,
            "solution": dict(PROBLEMS)[prompt],
            "token_ids": ids,
            "step_ends": [*range(8, len(ids) - (not one.is_cut_off), 8)]
            + [len(tokenizer.encode(completion))] * bool(completion),
            "rewards": [v],
            "outcome": v,
            "advantage": approx(reference.standardized(v, outcomes)),
            "hypotheses": HYPOTHESES[prompt],
            "member": MEMBERS[prompt][n % 4],
            "is_cut_off": completion in CUT_OFF,
            "token_logps": None,
            "importance_ratios": None,
        }
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
    tokens = made._metrics["train"]["barl/scoring_tokens"][-1]
    assert sum(record["scored_tokens"] for record in records) == tokens > 0


def test_metadata_says_how_they_were_made(recorded, tmp_path):
    _, _, made = recorded(consistency_beta=float("inf"), temperature=0.7)
    found = read_metadata(tmp_path / FOLDER / file_name(0))
    expected = {"source": "training", "num_generations": 4, "temperature": 0.7}
    expected |= {"reward_names": ["accuracy_reward"], "reward_weights": [1.0]}
    assert found.items() >= expected.items() and found["settings"] == made.args.settings
    assert 0 < found["seconds"]["scoring"] < found["seconds"]["rollouts"]
    assert found["seconds"]["since_batch_before"] is None


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
    assert [r["observed_tools"] for r in records] == [
        [twice, once, []],
        None,
        [once, []],
        [once, once, []],
    ]
    assert [r["ended_in_call"] for r in records] == [False, False, False, True]
    masks = trainer.generated.masks
    prompts = map(trainer._tokenizer.decode, trainer.generated.prompt_ids)
    assert [r["prompt"] for r in records] == [*prompts]
    assert [r["own_tokens"] for r in records] == [masks[0], None, *masks[2:]]
    for record, turns in zip(records, trainer.scored.turns, strict=True):
        stops = [turn.stop for turn in turns]
        assert record["turn_ends"] == (stops if len(stops) > 1 else None)
        assert record["step_ends"][:-1] == stops[:-1]
    metadata = read_metadata(tmp_path / FOLDER / file_name(0))
    for record, numbers in zip(records, derive(records, metadata), strict=True):
        assert numbers.difference is None
        assert numbers.methods["barl"] == approx(record["step_values"])
        own = np.array(record["own_tokens"] or [1] * len(record["tokens"]), dtype=bool)
        sizes = np.diff([0, *record["step_ends"]])
        spread = np.repeat(numbers.weights, sizes)
        weights = np.array(record["token_weights"])
        np.testing.assert_allclose(weights[: len(spread)], spread * own[: len(spread)], atol=1e-6)


# A run


def steps_of(folder):
    return [path.name for _, path in record_files(folder / FOLDER)]


def test_a_step_of_several_batches_has_a_file_for_each(model, tokenizer, tmp_path):
    batches = {"gradient_accumulation_steps": 2, "steps_per_generation": 1}
    batches |= {"max_steps": 2, "overwrite_output_dir": True}
    args = config(tmp_path, log_beliefs=True, **batches)
    for _ in range(2):  # the second run does all of it anew
        trainer(copy.deepcopy(model), tokenizer, args, rows=PROBLEMS * 2).train()
        names = [file_name(0), file_name(0, 1), file_name(1), file_name(1, 1)]
        assert steps_of(tmp_path) == names
        places = [(r["step"], r["group"], r["rollout"]) for r in read_records(tmp_path / FOLDER)]
        expected = [(step, n // 4, n) for step in range(2) for n in range(16)]
        assert places == expected


def test_a_resumed_run_forgets_what_it_does_again(model_path, tokenizer, tmp_path):
    def run(resume=None, **settings):
        batches = {"per_device_train_batch_size": 4, "steps_per_generation": 2}
        saves = {"save_strategy": "steps", "save_steps": 2}
        args = config(tmp_path, log_beliefs=True, **batches | saves | settings)
        trainer(model_path, tokenizer, args).train(resume)

    run(max_steps=4)
    assert steps_of(tmp_path) == [file_name(0), file_name(2)]
    before = [*read_records(tmp_path / FOLDER)]
    for step in (3, 7):  # of a run with other batches that was killed
        write_records(tmp_path / FOLDER / file_name(step), before[:1], {})
    run(str(tmp_path / "checkpoint-2"), max_steps=6)
    assert steps_of(tmp_path) == [file_name(0), file_name(2), file_name(4)]
    after = [*read_records(tmp_path / FOLDER)]
    np.testing.assert_equal(after[: len(before)], before)
    assert {record["step"] for record in after[len(before) :]} == {4}
    found = read_metadata(tmp_path / FOLDER / file_name(2))["seconds"]
    assert found["since_batch_before"] is None  # it was another process's
