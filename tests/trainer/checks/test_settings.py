"""The table of rules: told of values, and before TRL is imported of the texts of a command line."""

from types import SimpleNamespace

import pytest

from barl_trl.commands.train_arguments import given_settings
from barl_trl.credit.registry import CREDITS
from barl_trl.trainer.barl_fields import BARLFields
from barl_trl.trainer.checks.settings import (
    BARL_RULES,
    CREDIT_RULES,
    TRL_RULES,
    batch_settings,
    refuse_broken,
)

from ..rollouts import config


def told_early(given):
    refuse_broken(TRL_RULES, given_settings(BARLFields(), SimpleNamespace(**given)))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"beta": None, "loss_type": None},
        {"beta": 0.0, "temperature": 0.5, "loss_type": "grpo"},
        {"scale_rewards": True},
        {"scale_rewards": "True"},  # as a command line has it
        {"off_policy_mask_threshold": None},
    ],
)
def test_what_barl_can_honour_is_allowed(given):
    told_early(given)


@pytest.mark.parametrize(
    "given",
    [
        {"beta": -0.1},
        {"temperature": 0.0},
        {"loss_type": "vespo"},
        {"importance_sampling_level": "sequence"},
        {"multi_objective_aggregation": "normalize_then_sum"},
        {"off_policy_mask_threshold": 0.5},
        {"scale_rewards": "batch"},
        {"scale_rewards": False},
        {"num_generations": 0},
        {"enable_jit_checkpoint": True},
    ],
)
def test_what_it_cannot_is_refused_by_name(given, tmp_path):
    [name] = given
    with pytest.raises(ValueError, match=f"^{name} must be ") as early:
        told_early(given)
    with pytest.raises(ValueError, match=f"^{name} must be ") as late:
        config(tmp_path, **given)
    assert str(early.value) == str(late.value)


@pytest.mark.parametrize("strategy", ["no", "steps"])
def test_batches_of_evaluation_count_where_there_is_some(strategy, tmp_path):
    settings = vars(config(tmp_path)) | {"eval_strategy": strategy, "generation_batch_size": 16}
    found = batch_settings(settings, num_processes=2)
    assert (found.num_processes, found.num_generations) == (2, 4)
    assert (found.per_device_eval_batch_size is None) == (strategy == "no")


def test_the_table_knows_which_estimators_take_a_setting():
    """It is written down, for the estimators' signatures need torch."""
    for rule in CREDIT_RULES:
        takers = [name for name, credit in CREDITS.items() if rule.field in credit.setting_names]
        assert rule.way_out == f"it is a setting of {', '.join(takers)}"


def test_what_follows_from_another_field_is_refused_before_trl_is_imported():
    given = {"prompts_per_rollout_batch": 4, "generation_batch_size": 32}
    rule = "generation_batch_size must be left out with prompts_per_rollout_batch=4, got 32: it"
    with pytest.raises(ValueError, match=rule):
        told_early(given)


@pytest.mark.parametrize("rules", [BARL_RULES, CREDIT_RULES, TRL_RULES])
def test_defaults_break_no_rule(rules):
    refuse_broken(rules, given_settings(BARLFields()))
