"""Responses as rollout records, with beliefs and without."""

import json
import shutil
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from barl_trl.evaluation.beliefs.response_records import (
    belief_table,
    convert_responses,
    record_path,
)
from barl_trl.evaluation.beliefs.response_values import believe, response_scorer, value_records
from barl_trl.graders import get_grader
from barl_trl.report.inspector.derived import derive
from barl_trl.report.rollout_records import SCHEMA, read_metadata, read_records
from barl_trl.report.token_texts import TokenTexts
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.config import BARLConfig

from .. import reference
from .files import problems, response, write_responses

RESPONSES = [
    response(5, 0, 1, text="One and one: 1 + 1 = 2, thus \\boxed{2}.", answer="2"),
    response(5, 1, 0, text="It is \\boxed{11}.", answer="11"),
    response(5, 2, 0, text="I do not know, ²", truncated=True, reason="no answer"),
    response(5, 3, 0, text="", reason="no answer"),
]
BELIEFS = ("step_values", "hypotheses", "member", "answer_logps", "posterior", "scored_tokens")


@pytest.fixture
def scorer(tokenizer):
    return response_scorer(
        tokenizer,
        BARLConfig(bf16=False, step_size=8),
        grader=get_grader("math_verify"),
        step_segmenter=lambda ids: fixed_size_steps(ids, step_size=8),
    )


def assert_known(records):
    """What needs no belief."""
    rewards = [one.reward for one in RESPONSES]
    for n, (record, one) in enumerate(zip(records, RESPONSES, strict=True)):
        expected = {
            "step": 0,
            "group": 5,
            "rollout": n,
            "prompt": "1 + 1?\n",
            "solution": "2",
            "rewards": [one.reward],
            "outcome": one.reward,
            "answer": one.answer,
            "reason": one.reason,
            "is_cut_off": one.truncated,
            "token_logps": None,
            "importance_ratios": None,
            "token_weights": None,
        }
        assert {name: record[name] for name in expected} == expected
        assert "".join(record["tokens"]) == one.response
        advantage = (one.reward - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-4)
        assert record["advantage"] == pytest.approx(advantage, rel=1e-4)


def test_responses_without_beliefs(tmp_path, model_path, tokenizer):
    folder = write_responses(tmp_path, {5: RESPONSES}, model=model_path)
    [path] = convert_responses(folder)
    records = [*read_records(path.parent)]
    assert_known(records)
    for record, one in zip(records, RESPONSES, strict=True):
        assert record["token_ids"] == tokenizer.encode(one.response)
        assert record["step_ends"] == [] and not any(record[name] for name in BELIEFS)


def test_beliefs_are_those_of_analyze_values(model, tokenizer, scorer):
    texts, found = TokenTexts(tokenizer), believe(model, scorer, RESPONSES)
    records = belief_table(texts, found, first=0, tokenizer=tokenizer).to_pylist()
    assert_known(records)
    values = value_records(found, scorer)
    for record, value, member in zip(records, values, [0, 1, None, None], strict=True):
        assert (record["hypotheses"], record["member"]) == (["2", "11"], member)
        assert len(record["step_ends"]) == len(value["steps"])
        np.testing.assert_allclose(record["posterior"], value["posterior"], atol=1e-6)
        believed = reference.posterior(record["answer_logps"], 1.0)
        np.testing.assert_allclose(record["posterior"], believed, atol=1e-5)
        weighted = value["posterior_weighted_values"]
        np.testing.assert_allclose(record["step_values"], weighted, atol=1e-6)


@pytest.mark.parametrize(
    "settings", [{}, {"credit_options": {"outcome_mode": "hypothesis"}}, {"credit": "gae"}]
)
def test_the_page_computes_the_same_values(model, tokenizer, settings):
    args = BARLConfig(
        bf16=False, step_size=8, answer_likelihood="sum", consistency_beta=np.inf, **settings
    )
    scorer = response_scorer(
        tokenizer,
        args,
        grader=get_grader("math_verify"),
        step_segmenter=lambda ids: fixed_size_steps(ids, step_size=8),
    )
    found = believe(model, scorer, RESPONSES)
    records = belief_table(TokenTexts(tokenizer), found, first=0, tokenizer=tokenizer).to_pylist()
    for numbers, record in zip(derive(records, {"settings": args.settings}), records, strict=True):
        computed = numbers.methods[args.credit]
        np.testing.assert_allclose(computed, record["step_values"], atol=1e-5)


def test_without_a_usable_truth_there_is_no_belief(model, tokenizer, scorer):
    responses = [replace(one, solution="{") for one in RESPONSES]
    found = believe(model, scorer, responses)
    table = belief_table(TokenTexts(tokenizer), found, first=0, tokenizer=tokenizer)
    for record in table.to_pylist():
        assert all(not record[name] for name in BELIEFS)
        assert record["step_values"] is None and record["posterior"] is None


def test_a_folder_of_barl_evaluate_is_converted(tmp_path, model_path):
    folder = write_responses(tmp_path / "eval", problems([[1, 0], [0]]), model=model_path)
    write_responses(folder, problems([[1]]), benchmark="amc", model=model_path)
    paths = convert_responses(folder)
    assert paths == [record_path(folder, name) for name in ("amc", "math500")]
    [one], three = ([*read_records(path.parent)] for path in paths)
    assert [*one] == SCHEMA.names
    assert [(r["group"], r["rollout"], r["outcome"]) for r in three] == [
        (0, 0, 1.0),
        (0, 1, 0.0),
        (1, 2, 0.0),
    ]
    found = read_metadata(paths[1])
    assert found["source"] == "evaluation" and found["benchmark"] == "math500"
    assert found["model"] == Path(model_path).name and found["reward_names"] == ["accuracy"]


def test_the_model_must_be_named(tmp_path):
    folder = write_responses(tmp_path / "eval", problems([[1]]))
    (folder / "results.json").unlink()
    with pytest.raises(ValueError, match=r"folder must have results\.json, which names the model"):
        convert_responses(folder)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_strangers_tokenizer_runs_no_code(tmp_path, model_path, monkeypatch, is_whole):
    stranger = shutil.copytree(model_path, tmp_path / "stranger")
    (stranger / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    own = {"AutoConfig": "own.Own", "AutoTokenizer": ["own.Own", None]}
    for name in ("tokenizer_config.json", "config.json"):
        settings = json.loads((stranger / name).read_text())
        settings |= {"tokenizer_class": "Own", "model_type": "own", "auto_map": own}
        (stranger / name).write_text(json.dumps(settings))
    if not is_whole:
        (stranger / "tokenizer.json").unlink()
    folder = write_responses(tmp_path / "eval", problems([[1]]), model=str(stranger))
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # nobody is asked
    with pytest.raises(ValueError, match=r"results\.json must name a model whose tokenizer"):
        convert_responses(folder)
    assert not (tmp_path / "ran").exists()
