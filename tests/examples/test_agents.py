"""The example of an agent, in short, and the model that it trains."""

import json
import runpy
from functools import partial
from pathlib import Path

import pytest
import trl
from transformers import AutoModelForCausalLM, AutoTokenizer

import barl_trl
from barl_trl.synthetic.number import NUMBER_COUNT, NUMBER_MODEL_DIR, QUESTION, number_rows

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
    game.reset(**number_rows(1, seed=0)[0])
    assert [game.at_least(n) for n in (game.secret, game.secret + 1)] == ["yes", "no"]


def test_secrets_are_spread():
    secrets = {int(row["solution"]) for row in number_rows(400, seed=1)}
    assert secrets == {*range(1, NUMBER_COUNT + 1)}


def test_the_shipped_model_is_small_and_trl_knows_its_template(game):
    tokenizer = AutoTokenizer.from_pretrained(NUMBER_MODEL_DIR)
    template = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    assert tokenizer.chat_template == template.read_text(encoding="utf-8")
    render = partial(tokenizer.apply_chat_template, add_generation_prompt=True)
    prompt = render([{"role": "user", "content": QUESTION}], tools=[game.at_least])
    assert len(prompt["input_ids"]) < 20
    assert sum(path.stat().st_size for path in NUMBER_MODEL_DIR.iterdir()) < 1_000_000
    model = AutoModelForCausalLM.from_pretrained(NUMBER_MODEL_DIR)
    assert model.num_parameters() < 300_000
