"""TRL's settings that contradict BARL, told of values and of the texts of a command line."""

import pytest

from barl_trl.trainer.trl_settings import batch_settings, refuse_trl_settings

from .rollouts import config


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
    refuse_trl_settings(given)


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
    ],
)
def test_what_it_cannot_is_refused_by_name(given, tmp_path):
    [name] = given
    with pytest.raises(ValueError, match=f"^{name} must be ") as early:
        refuse_trl_settings(given)
    with pytest.raises(ValueError, match=f"^{name} must be ") as late:
        config(tmp_path, **given)
    assert str(early.value) == str(late.value)


@pytest.mark.parametrize("strategy", ["no", "steps"])
def test_batches_of_evaluation_count_where_there_is_some(strategy, tmp_path):
    settings = vars(config(tmp_path)) | {"eval_strategy": strategy}
    found = batch_settings(settings, num_processes=2)
    assert (found.num_processes, found.num_generations) == (2, 4)
    assert (found.per_device_eval_batch_size is None) == (strategy == "no")
