"""`BARLConfig`: defaults, what contradicts BARL in TRL's settings, and the way out."""

import math
import os
import subprocess

import pytest
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from barl_trl import BARLConfig

from ..preloaded import PRELOADED

CPU = {"use_cpu": True, "bf16": False}


def test_defaults_are_the_papers():
    args = BARLConfig("out", **CPU)
    assert (args.step_size, args.consistency_beta, args.max_completion_length) == (128, 1.0, 1024)
    credit = args.own_credit
    assert (credit.answer_likelihood, credit.value_normalization) == ("mean", "batch")
    assert (credit.credit_baseline, credit.hypotheses) == ("none", "rollouts")
    assert args.beta == 0.0  # TRL's: no KL


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0}, "step_size must be at least 1, got 0"),  # as all of test_barl_fields.py
        ({"credit": "belief_critics"}, r"got 'belief_critics': did you mean 'belief_critic'\?"),
        ({"prompts_per_rollout_batch": 0}, "prompts_per_rollout_batch must be at least 1, got 0"),
        (
            {"rollouts_per_optimizer_step": 20},
            "rollouts_per_optimizer_step must be a multiple of per_device_train_batch_size "
            r"\* num_processes = 8, got 20: the nearest are rollouts_per_optimizer_step = 16 or 24",
        ),
        (
            {"num_generations": 5},
            "must be a multiple of num_generations = 5, got 8: .*gradient_accumulation_steps = 5",
        ),
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


@pytest.mark.parametrize(
    "setting", [{"outcome_mode": "hypothesis"}, {"answer_likelihood": "sum"}], ids=str
)
def test_settings_that_can_hide_the_outcome_warn_with_what_was_measured(setting):
    [(name, value)] = setting.items()
    with pytest.warns(UserWarning, match=rf"{name}='{value}': .* \(docs/credit.md\)"):
        BARLConfig("out", **setting, **CPU).warn_of_weights(have_fixed_steps=True)


@pytest.mark.filterwarnings("error:.*docs/credit")
@pytest.mark.parametrize("setting", [{"consistency_beta": math.inf}, {"credit": "progress"}])
def test_what_the_warning_advises_and_other_credits_warn_no_more(setting):
    args = BARLConfig("out", answer_likelihood="sum", **setting, **CPU)
    args.warn_of_weights(have_fixed_steps=True)


def test_what_trl_still_calls_by_its_old_name_is_no_warning_for_users(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "from barl_trl import BARLConfig\nBARLConfig('o', use_cpu=True, bf16=False)\n"
    )
    settings = {"capture_output": True, "text": True, "check": True, "cwd": tmp_path}
    done = subprocess.run([*PRELOADED, str(script)], env=os.environ.copy(), **settings)
    assert "FutureWarning" not in done.stderr
