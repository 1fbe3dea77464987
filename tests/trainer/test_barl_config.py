"""`BARLConfig`: defaults, refusals with the way out, and one text per field."""

import math
import re

import pytest
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from barl_trl import BARLConfig
from barl_trl.trainer.barl_fields import barl_fields

from ..paths import ROOT

CPU = {"use_cpu": True, "bf16": False}


def test_defaults_are_the_papers():
    args = BARLConfig("out", **CPU)
    assert (args.step_size, args.consistency_beta, args.max_completion_length) == (128, 1.0, 1024)
    assert (args.answer_likelihood, args.value_normalization) == ("mean", "batch")
    assert args.beta == 0.0  # TRL's: no KL


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0}, "step_size must be at least 1, got 0"),
        ({"step_size": 1.5}, "step_size must be an integer, got 1.5: the default is 128"),
        ({"step_size": True}, "step_size must be an integer, got True"),
        ({"step_size": None}, "step_size must be an integer, got None"),
        ({"max_hypotheses": "4"}, "max_hypotheses must be an integer or None, got '4'"),
        ({"consistency_beta": "1"}, "consistency_beta must be a number, got '1': the default is 1"),
        ({"max_completion_length": 0}, "max_completion_length must be at least 1, got 0"),
        ({"consistency_beta": -0.5}, r"consistency_beta must be in \[0, inf\], got -0.5"),
        ({"consistency_beta": math.nan}, "consistency_beta must be in"),
        ({"answer_likelihood": "max"}, r"must be one of \['mean', 'sum'\], got 'max'"),
        ({"outcome_mode": "truth"}, "outcome_mode must be one of"),
        (
            {"outcome_mode": "hypothesis", "hypotheses": "truth"},
            "outcome_mode must be 'ground_truth' with hypotheses='truth'",
        ),
        ({"hypotheses": "all"}, "hypotheses must be one of"),
        ({"value_normalization": "std"}, "value_normalization must be one of"),
        ({"scoring_method": "fast"}, "scoring_method must be one of"),
        ({"scoring_max_tokens": 0}, "scoring_max_tokens must be at least 1"),
        ({"max_answer_chars": 0}, "max_answer_chars must be at least 1"),
        ({"max_hypotheses": 1}, "max_hypotheses must be at least 2.*hypotheses='truth'"),
        ({"plausibility_temperature": 0.0}, "plausibility_temperature must be greater than 0"),
        ({"elicitation": ""}, "elicitation must not be empty"),
        ({"elicitation": None}, "elicitation must be a text, got None"),
        (
            {"loss_type": "vespo"},
            "loss_type must be one of .*others weigh whole sequences. The default is 'dapo'",
        ),
        ({"loss_type": "luspo"}, "loss_type must be one of"),
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level must be 'token'"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "must be 'sum_then_normalize'"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold must be None"),
        ({"num_generations": 0}, "num_generations must be at least 1, got 0"),
        ({"prompts_per_rollout_batch": 0}, "prompts_per_rollout_batch must be at least 1, got 0"),
        (
            {"prompts_per_rollout_batch": 4, "generation_batch_size": 32},
            "generation_batch_size must be left out with prompts_per_rollout_batch=4, got 32",
        ),
        (
            {"prompts_per_rollout_batch": 4, "steps_per_generation": 4},
            "steps_per_generation must be left out with prompts_per_rollout_batch=4, got 4",
        ),
        (
            {"rollouts_per_optimizer_step": 16, "gradient_accumulation_steps": 4},
            "gradient_accumulation_steps must be left out with rollouts_per_optimizer_step=16",
        ),
        (
            {"rollouts_per_optimizer_step": 20},
            "rollouts_per_optimizer_step must be a multiple of per_device_train_batch_size "
            r"\* num_processes = 8, got 20: the nearest are rollouts_per_optimizer_step = 16 or 24",
        ),
        (
            {"num_generations": 5},
            "must be a multiple of num_generations = 5, got 8: .*gradient_accumulation_steps = 5",
        ),
        ({"scale_rewards": "batch"}, "scale_rewards must be 'group'.*value_normalization"),
    ],
)
def test_refusals_name_field_value_and_way_out(settings, message):
    with pytest.raises(ValueError, match=message):
        BARLConfig("out", **CPU, **settings)


def test_settings_that_keep_their_meaning_are_accepted():
    BARLConfig("out", consistency_beta=math.inf, scale_rewards=True, loss_type="sapo", **CPU)


def test_the_papers_batch_sizes_are_trls():
    settings = {"num_generations": 5, "per_device_train_batch_size": 16}
    args = BARLConfig(
        "out", prompts_per_rollout_batch=1024, rollouts_per_optimizer_step=128, **settings, **CPU
    )
    assert (args.generation_batch_size, args.steps_per_generation) == (5120, 320)
    assert args.gradient_accumulation_steps == 8


def test_a_state_that_was_configured_before_stays():
    """`use_configured_state` is the user's word that accelerate's state is made already."""
    Accelerator(cpu=True)
    try:
        args = BARLConfig("out", accelerator_config={"use_configured_state": True}, **CPU)
        assert AcceleratorState().num_processes == args.world_size == 1
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize(
    "setting", [{"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.1}, {"repetition_penalty": 1.1}]
)
def test_sampling_that_biases_the_importance_ratio_is_warned_of(setting):
    name, value = next(iter(setting.items()))
    with pytest.warns(UserWarning, match=f"{name}={value}: .* the importance ratio is biased"):
        BARLConfig("out", use_vllm=True, **setting, **CPU)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_vllm": True, "temperature": 0.6, "top_k": -1, "min_p": 0.0},
        {"use_vllm": True, "top_p": 0.9, "vllm_importance_sampling_correction": False},
        {"top_p": 0.9},
    ],
    ids=["whole distribution", "no correction", "no vLLM"],
)
@pytest.mark.filterwarnings("error:.*importance ratio")
def test_other_sampling_is_not(settings):
    BARLConfig("out", **settings, **CPU)


def table_row(option):
    default = repr(option.default) if option.default != "" else "''"
    return f"| `{option.name}` | `{default}` | {option.metadata['help']} |"


def test_readme_table_is_the_fields_help():
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| `\w+` \| `.*` \| .* \|$", readme, re.MULTILINE)
    assert rows == [table_row(option) for option in barl_fields()]
