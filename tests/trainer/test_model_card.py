"""What stands in a model card beside TRL's text."""

import math
import re
from importlib.resources import files

from barl_trl import BARLConfig
from barl_trl.trainer.hub.model_card import (
    _MEASURED_ON,
    _SETTINGS,
    add_sections,
    card_results,
    card_settings,
    quick_start,
)

CARD = """# Model Card for mine

This model is a fine-tuned version of [None](https://huggingface.co/None).

### Framework versions

- TRL: 1.16.0
"""
PARTS = {"model": "tiny", "reward": "1 accuracy_reward", "step": 3}


def config(**settings):
    return BARLConfig("out", use_cpu=True, bf16=False, **settings)


def test_settings_are_the_usual_ones_and_those_that_are_not_the_default():
    assert list(card_settings(config())) == list(_SETTINGS)
    settings = card_settings(config(credit="progress", consistency_beta=math.inf))
    assert list(settings) == [*_SETTINGS, "credit"]
    assert (settings["credit"], settings["consistency_beta"]) == ("progress", math.inf)


def test_results_are_the_last_that_were_logged():
    log_history = [
        {"reward": 0.25, "eval_reward": 0.125, "loss": 1.0},
        {"reward": 0.5, "barl/value": None, "barl/scoring_tokens": 10.0, "barl/check_seconds": 0.1},
        {"train_runtime": 3.0},
    ]
    assert card_results(log_history) == {"reward": 0.5, "eval_reward": 0.125}


def test_tables_stand_before_the_versions():
    card = add_sections(
        CARD,
        settings={"elicitation": "a|b\n"},
        data={"rows": 10},
        results={"reward": 2 / 3},
        **PARTS,
    )
    assert card.index("fine-tuned version of `tiny`.") < card.index("### Settings")
    assert "| elicitation | `'a\\|b\\n'` |" in card
    assert "| rows | `10` |\n\n### Results, as last logged in 3 steps\n" in card
    assert f"| reward | `0.6667` |\n\n{_MEASURED_ON}### Framework versions\n\n- TRL: 1.16.0" in card


def test_without_results_or_versions():
    card = add_sections("# Mine\n", settings={}, data={"rows": 10}, results={}, **PARTS)
    assert card.endswith("### Data\n\n| | |\n|---|---|\n| rows | `10` |\n\n")
    assert "Results" not in card


def test_the_example_asks_a_question_of_the_task():
    namespace = {}
    template = files("trl.templates").joinpath("lm_model_card.md").read_text()
    prompt = [{"role": "user", "content": 'What is "1 + 1"?\n```'}]
    about = {"model": "me/mine", "prompt": prompt, "max_new_tokens": 64}
    card = quick_start(template, eos_token_ids=[5], **about)
    (example,) = re.findall(r"## Quick start\n\n```python\n(.*?)\n```\n\n##", card, re.DOTALL)
    exec(example.splitlines()[2], namespace)
    assert namespace["prompt"] == prompt
    assert "model='me/mine'" in example and "max_new_tokens=64" in example
    assert "time machine" not in card and "hub_model_id" not in card
    assert "eos_token_id" not in card  # the model says it
    assert ", eos_token_id=[5, 7]," in quick_start(template, eos_token_ids=[5, 7], **about)


def test_names_and_values_are_no_markup():
    results = {"rewards/<b>|x/mean": 1.0}
    parts = PARTS | {"reward": "`mine`"}
    card = add_sections("# Mine\n", settings={}, data={}, results=results, **parts)
    assert "| reward | `` `mine` `` |" in card
    assert r"| rewards/\<b>\|x/mean | `1` |" in card
