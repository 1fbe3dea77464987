"""What `examples/inspect_log.py` writes, read by inspect_ai, against responses and metrics."""

import json
import subprocess
import sys

import pytest

from barl_trl.evaluation.statistics import accuracy, mean_pass_at_k

from ..evaluation.files import problems, response, write_responses
from ..paths import ROOT

pytestmark = pytest.mark.inspect_ai

REWARDS = [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
RESULTS = {
    **{"model": "out/barl", "model_init_kwargs": {"token": "<TOKEN>"}, "temperature": 1.0},
    **{"max_tokens": 99, "seed": 3, "grader": {"name": "string", "version": "1"}},
    "versions": {"torch": "2.13.0"},
    "runs": [{"date": "2026-11-23T10:00:00+00:00", "command": "barl evaluate"}],
    "benchmarks": {"math500": {"source": {"path": "mine.jsonl"}, "accuracy": 0.5}},
}


def export(folder, log_dir):
    """Run the script; return the files that it names, before the command of the viewer."""
    command = [sys.executable, str(ROOT / "examples" / "inspect_log.py"), folder]
    command += ["--log_dir", log_dir]
    *written, viewer = subprocess.check_output(command, text=True, timeout=300).splitlines()
    assert viewer == f"To look at them: inspect view --log-dir '{log_dir}'"
    return written


@pytest.fixture
def folder(tmp_path):
    groups = problems(REWARDS, answer="2")
    cut = {"tokens": 99, "truncated": True, "answer": None, "text": "é $x$\u2028"}
    groups[1][2] = response(1, 2, 0, reason="no answer", **cut)
    path = write_responses(tmp_path / "run", groups)
    (path / "results.json").write_text(json.dumps(RESULTS))
    return path, [one for group in groups.values() for one in group]


def test_every_response_is_read_back(folder, tmp_path):
    from inspect_ai.log import read_eval_log

    path, responses = folder
    (written,) = export(path, tmp_path / "my logs")
    assert export(path, tmp_path / "my logs") == [written]
    log = read_eval_log(written)
    assert (log.status, log.eval.task, log.eval.model) == ("success", "math500", "out/barl")
    assert (log.eval.config.epochs, log.eval.dataset.samples) == (3, 4)
    samples = sorted(log.samples, key=lambda sample: (sample.id, sample.epoch))
    for sample, one in zip(samples, responses, strict=True):
        assert (sample.id, sample.epoch) == (one.problem_id, one.sample + 1)
        assert (sample.input, sample.target) == (one.problem, one.solution)
        assert [m.text for m in sample.messages] == [one.prompt, one.response]
        assert sample.output.completion == one.response
        assert sample.output.stop_reason == ("max_tokens" if one.truncated else "stop")
        assert sample.output.usage.output_tokens == one.tokens
        score = sample.scores["string"]
        assert (score.value, score.answer) == ("C" if one.reward else "I", one.answer)
        assert score.explanation == one.reason


def test_metrics_are_ours_and_those_that_inspect_ai_computes(folder, tmp_path):
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import SampleScore, mean_score, pass_at, stderr, value_to_float
    from inspect_ai.scorer import accuracy as their_accuracy

    (written,) = export(folder[0], tmp_path / "my logs")
    log = read_eval_log(written)
    ours = {1: accuracy(REWARDS), 2: mean_pass_at_k(REWARDS, 2), 3: mean_pass_at_k(REWARDS, 3)}
    assert [score.reducer for score in log.results.scores] == ["mean", "pass_at_2", "pass_at_3"]
    for (k, estimate), score in zip(ours.items(), log.results.scores, strict=True):
        found = {name: metric.value for name, metric in score.metrics.items()}
        expected = {"accuracy": estimate.mean, "stderr": estimate.standard_error}
        assert found == pytest.approx(expected)
        reduce = mean_score(value_to_float()) if k == 1 else pass_at(k)
        theirs = [
            SampleScore(score=reduce([s.scores["string"] for s in log.samples if s.id == number]))
            for number in range(len(REWARDS))
        ]
        assert their_accuracy()(theirs) == pytest.approx(estimate.mean)
        assert stderr()(theirs) == pytest.approx(estimate.standard_error)
