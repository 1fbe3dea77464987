"""Responses as rollout records, which the page reads."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from barl_trl.evaluation.records import convert_responses
from barl_trl.trainer.records import SCHEMA, read_metadata, read_records

from .files import problems, response, write_responses

RESPONSES = [
    response(5, 0, 1, text="One and one: 1 + 1 = 2, thus \\boxed{2}.", answer="2"),
    response(5, 1, 0, text="It is \\boxed{11}.", answer="11"),
    response(5, 2, 0, text="I do not know, ²", truncated=True, reason="no answer"),
    response(5, 3, 0, text="", reason="no answer"),
]


def test_a_record_has_what_needs_no_belief(tmp_path, model_path, tokenizer):
    folder = write_responses(tmp_path, {5: RESPONSES}, model=model_path)
    [path] = convert_responses(folder)
    rewards = [one.reward for one in RESPONSES]
    for n, (record, one) in enumerate(zip(read_records(path.parent), RESPONSES, strict=True)):
        expected = {"step": 0, "group": 5, "rollout": n, "prompt": "1 + 1?\n", "solution": "2"}
        expected |= {"rewards": [one.reward], "outcome": one.reward, "is_cut_off": one.truncated}
        expected |= {"answer": one.answer, "reason": one.reason, "step_ends": []}
        expected |= {"token_ids": tokenizer.encode(one.response)}
        expected |= {"token_weights": None, "posterior": None}
        assert {name: record[name] for name in expected} == expected
        assert "".join(record["tokens"]) == one.response
        advantage = (one.reward - statistics.mean(rewards)) / (statistics.stdev(rewards) + 1e-4)
        assert record["advantage"] == pytest.approx(advantage, rel=1e-4)


def test_a_folder_of_barl_evaluate_is_converted(tmp_path, model_path):
    folder = write_responses(tmp_path / "eval", problems([[1, 0], [0]]), model=model_path)
    write_responses(folder, problems([[1]]), benchmark="amc", model=model_path)
    paths = convert_responses(folder)
    assert [path.parents[1] for path in paths] == [folder / "amc", folder / "math500"]
    [one], three = ([*read_records(path.parent)] for path in paths)
    assert [*one] == SCHEMA.names
    places = [(r["group"], r["rollout"], r["outcome"]) for r in three]
    assert places == [(0, 0, 1.0), (0, 1, 0.0), (1, 2, 0.0)]
    found = read_metadata(paths[1])
    assert (found["source"], found["benchmark"]) == ("evaluation", "math500")
    assert found["model"] == Path(model_path).name
    (folder / "results.json").unlink()
    with pytest.raises(ValueError, match=r"which names the model"):
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
    with pytest.raises(ValueError, match=r"results.json must be one that"):
        convert_responses(folder)
    assert not (tmp_path / "ran").exists()
