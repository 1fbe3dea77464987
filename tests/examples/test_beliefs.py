"""The example of the task's belief, in short, and the function that reads a text format."""

import json
import runpy
from pathlib import Path

import pytest

import barl_trl
from barl_trl.synthetic.search import observation_likelihood, problems

from ..paths import ROOT

EXAMPLE = ROOT / "examples" / "beliefs.py"


@pytest.fixture(scope="module")
def observed():
    return runpy.run_path(str(EXAMPLE))["observed"]


def test_it_trains(tmp_path, monkeypatch, capsys):
    def short(*args, config=barl_trl.BARLConfig, **kwargs):
        sizes = {"max_steps": 2, "per_device_train_batch_size": 16}
        return config(*args, **kwargs | sizes)

    monkeypatch.setattr(barl_trl, "BARLConfig", short)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = capsys.readouterr().out
    assert "barl/entropy_before: 1.95 in the first step, 1.95 in the last\n" in shown  # ln 7
    path = Path("outputs", "beliefs", "checkpoint-2", "trainer_state.json")
    first = json.loads(path.read_text())["log_history"][0]
    # the shipped model tries some numbers and sums right
    assert 0.2 < first["barl/entropy_after"] < 1.9
    assert first["barl/truth_mass_after"] > first["barl/truth_mass_before"] > 0.14
    assert first["barl/observations_contradicted"] == first["barl/observations_unusable"] == 0
    assert first["barl/scoring_tokens"] == 0


def test_it_reads_lines_as_the_package_does(observed):
    texts = ["Try 3: 3*3 + 1 = 10, no.", "\nTry 2: 3*2 + 1 = 7, yes.", "\nTry 2: 3*2 + 1 = 7, no."]
    texts += ["\nTry 3: 3*3 + 1 = 7, yes.", "\nI know: 2.", ""]
    prompt = "Which of 2, 3, 10 satisfies 3x + 1 = 7?\n"
    columns = {"prompts": [prompt], "hypotheses": [["2", "3", "10"]], "steps": [texts]}
    assert observed(**columns, solution=["2"]) == observation_likelihood(**columns)
    problem = next(problems(0))
    steps = [f"\n{problem.try_line(number)}" for number in problem.candidates]
    hypotheses = [[str(number) for number in problem.candidates]]
    columns = {"prompts": [problem.prompt], "hypotheses": hypotheses, "steps": [steps]}
    assert observed(**columns) == observation_likelihood(**columns)
