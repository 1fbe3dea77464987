"""What stands in a model card beside TRL's text."""

import math

from barl_trl import BARLConfig
from barl_trl.trainer.hub.model_card import _MEASURED_ON, _SETTINGS, add_sections, card_settings

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


def test_tables_stand_before_the_versions():
    card = add_sections(
        CARD,
        settings={"elicitation": "a|b\n"},
        data={"rows": 10},
        log_history=[
            {"reward": 0.25, "eval_reward": 0.125, "loss": 1.0},
            {"reward": 2 / 3, "barl/value": None, "barl/scoring_tokens": 10.0},
            {"train_runtime": 3.0},
        ],
        **PARTS,
    )
    assert card.index("fine-tuned version of `tiny`.") < card.index("### Settings")
    assert "| elicitation | `'a\\|b\\n'` |" in card
    assert "| rows | `10` |\n\n### Results, as last logged in 3 steps\n" in card
    assert "3 steps\n\n| | |\n|---|---|\n| reward | `0.6667` |\n| eval_reward | `0.125` |" in card
    assert f"`0.125` |\n\n{_MEASURED_ON}### Framework versions\n\n- TRL: 1.16.0" in card


def test_without_results_or_versions():
    card = add_sections("# Mine\n", settings={}, data={"rows": 10}, log_history=[], **PARTS)
    assert card.endswith("### Data\n\n| | |\n|---|---|\n| rows | `10` |\n\n")
    assert "Results" not in card


def test_names_and_values_are_no_markup():
    log_history = [{"rewards/<b>|x/mean": 1.0}]
    parts = PARTS | {"reward": "`mine`"}
    card = add_sections("# Mine\n", settings={}, data={}, log_history=log_history, **parts)
    assert "| reward | `` `mine` `` |" in card
    assert r"| rewards/\<b>\|x/mean | `1` |" in card
