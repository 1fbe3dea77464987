"""The example of an agent, in short."""

import json
import runpy
from pathlib import Path

import pytest

import barl_trl
from barl_trl.synthetic.inquiry import number

from ..paths import ROOT

EXAMPLE = ROOT / "examples" / "agents.py"


@pytest.fixture(scope="module")
def game():
    return runpy.run_path(str(EXAMPLE))["NumberGame"]()


def test_the_page_shows_the_example():
    script = EXAMPLE.read_text().partition("\n\n")[2].strip()
    assert f"```python\n{script}\n```" in (ROOT / "docs" / "agents.md").read_text()


def test_it_has_forty_lines():
    assert sum(map(bool, map(str.strip, EXAMPLE.read_text().splitlines()))) <= 40


def test_it_trains(tmp_path, monkeypatch, capsys):
    def short(*args, config=barl_trl.BARLConfig, **kwargs):
        sizes = {"max_steps": 2, "per_device_train_batch_size": 16, "logging_steps": 1}
        return config(*args, **kwargs | sizes)

    monkeypatch.setattr(barl_trl, "BARLConfig", short)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    shown = capsys.readouterr().out
    assert "barl/turns_per_rollout: " in shown and "barl/observation_gain: " in shown
    path = Path("outputs", "agents", "checkpoint-2", "trainer_state.json")
    first = json.loads(path.read_text())["log_history"][0]
    # the shipped model plays in the right form, but asks and stops at random
    assert first["barl/malformed_calls"] < 0.2 and first["barl/no_answer"] < 0.2
    assert 2 < first["barl/turns_per_rollout"] < 5
    assert list(Path("outputs", "agents", "beliefs").glob("*.parquet"))


def test_the_game(game):
    game.reset(**number().rows(1, seed=0)[0])
    assert [game.at_least(n) for n in (game.secret, game.secret + 1)] == ["yes", "no"]
