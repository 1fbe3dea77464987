"""The table of rules: told of values, and before TRL is imported of the texts of a command line."""

from types import SimpleNamespace

import pytest
from barl_trl.trainer.barl_fields import BARLFields
from barl_trl.trainer.checks.settings import (
    BARL_RULES,
    CREDIT_RULES,
    TRL_RULES,
    batch_settings,
    refuse_broken,
)

from barl_trl.commands.train.arguments import given_settings
from barl_trl.credit.registry import CREDITS

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
    ("given", "message"),
    [
        ({"beta": -0.1}, "beta must be at least 0, got -0.1: it weighs the KL divergence"),
        ({"temperature": 0.0}, "temperature must be greater than 0, got 0.0"),
        (
            {"loss_type": "vespo"},
            "loss_type must be one of .*others weigh whole sequences. The default is 'dapo'",
        ),
        ({"loss_type": "luspo"}, "loss_type must be one of"),
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level must be 'token'"),
        (
            {"multi_objective_aggregation": "normalize_then_sum"},
            "multi_objective_aggregation must be 'sum_then_normalize' with BARL",
        ),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold must be None with BARL"),
        ({"scale_rewards": "batch"}, "scale_rewards must be 'group'.*value_normalization"),
        ({"scale_rewards": False}, "scale_rewards must be 'group' with BARL, got False"),
        ({"num_generations": 0}, "num_generations must be at least 1, got 0: the default is 8"),
        (
            {"enable_jit_checkpoint": True},
            "enable_jit_checkpoint must be False, got True: it saves",
        ),
        (
            {"generation_batch_size": 32, "prompts_per_rollout_batch": 4},
            "generation_batch_size must be left out with prompts_per_rollout_batch=4, got 32",
        ),
        (
            {"steps_per_generation": 4, "prompts_per_rollout_batch": 4},
            "steps_per_generation must be left out with prompts_per_rollout_batch=4, got 4",
        ),
        (
            {"gradient_accumulation_steps": 4, "rollouts_per_optimizer_step": 16},
            "gradient_accumulation_steps must be left out with rollouts_per_optimizer_step=16",
        ),
    ],
)
def test_what_it_cannot_is_refused_before_trl_is_imported_and_behind(given, message, tmp_path):
    with pytest.raises(ValueError, match=f"^{message}") as early:
        told_early(given)
    with pytest.raises(ValueError, match=f"^{message}") as late:
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
        if rule.field == "belief":  # also of those that only read the posterior
            continue
        takers = [name for name, credit in CREDITS.items() if rule.field in credit.setting_names]
        assert rule.way_out == f"it is a setting of {', '.join(takers)}"


@pytest.mark.parametrize("rules", [BARL_RULES, CREDIT_RULES, TRL_RULES])
def test_defaults_break_no_rule(rules):
    refuse_broken(rules, given_settings(BARLFields()))
