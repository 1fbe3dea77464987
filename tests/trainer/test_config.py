"""`BARLConfig`: defaults, one text per field, what is refused, and how batches divide."""

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trl import TrlParser

from barl_trl import BARLConfig
from barl_trl.credit.registry import CREDITS
from barl_trl.trainer.config import own_fields

from ..paths import ROOT

CPU = {"use_cpu": True, "bf16": False}


def of_needs(rollouts, *, step_size, learning_rate, beta=1.0, **more):
    """Stand for an estimator of a user's that needs what is no field."""


def make(**settings):
    return BARLConfig("out", **CPU, **settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("step_size", value) for value in (0, 1.5, None, "8")],
        *[("consistency_beta", value) for value in (-0.5, math.nan, "1", None)],
        *[("max_completion_length", 0), ("max_answer_chars", 0), ("scoring_max_tokens", 0)],
        *[("max_hypotheses", 1), ("max_hypotheses", "4"), ("plausibility_temperature", 0.0)],
        *[("answer_likelihood", "max"), ("extraction", "stately"), ("scoring_method", "fast")],
        *[("credit_baseline", "mean"), ("value_normalization", "std"), ("belief", "none")],
        *[("elicitation", ""), ("elicitation", None), ("prior_column", "weights")],
        *[("credit", "barll"), ("credit", "no.such.module"), ("prompts_per_rollout_batch", 0)],
        # TRL's
        *[("beta", -0.1), ("temperature", 0.0), ("num_generations", 1), ("num_generations", 0)],
        *[("loss_type", "vespo"), ("loss_type", "luspo"), ("max_steps", 0)],
        *[("importance_sampling_level", "sequence"), ("off_policy_mask_threshold", 0.5)],
        *[("multi_objective_aggregation", "normalize_then_sum"), ("enable_jit_checkpoint", True)],
        *[("scale_rewards", "batch"), ("scale_rewards", False), ("per_device_train_batch_size", 0)],
    ],
)
def test_a_value_that_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must "):
        make(**{name: value})


# The options of a credit


@pytest.mark.parametrize(
    ("credit", "options"),
    [
        *[("barl", one) for one in ({"gae_lambda": 0.9}, {"outcome_mode": "truth"})],
        *[("barl", one) for one in ("{gae_lambda: 1}", "outcome_mode")],
        ("barl", {"consistency_beta": 2.0}),  # it is a field
        *[("gae", {"gae_lambda": value}) for value in (1.5, "much")],
        *[("bayes", {"information_weight": value}) for value in (-1, math.inf)],
        (f"{__name__}.of_needs", {}),  # which has no default for one
    ],
)
def test_options_that_the_credit_does_not_take_are_refused(credit, options):
    with pytest.raises(ValueError, match=r"^credit_options must "):
        make(credit=credit, credit_options=options)


def test_the_credit_has_the_options_that_are_given_and_its_own_for_others():
    args = make(credit="belief_critic", credit_options={"gae_lambda": 0.9})
    assert args.settings["credit_options"] == {"gae_lambda": 0.9, "bootstrap_cut_off": True}
    assert args.settings["value_normalization"] == "batch"
    assert make(credit="gae").settings["credit_options"] == {"gae_lambda": 1.0}
    own = make(credit=f"{__name__}.of_needs", credit_options={"learning_rate": 3}).settings
    assert own["credit_options"] == {"learning_rate": 3, "beta": 1.0}


@pytest.mark.parametrize("credit", CREDITS)
def test_settings_are_json_and_the_credits_own_where_nothing_is_set(credit):
    args = make(credit=credit)
    assert json.loads(json.dumps(args.settings)) == args.settings
    for name in ("answer_likelihood", "credit_baseline", "value_normalization"):
        assert args.settings[name] == getattr(CREDITS[credit], name)
    assert args.scores_answers == (CREDITS[credit].hypotheses != "none")


# Parsers and files


def parse(*argv):
    [args] = TrlParser((BARLConfig,)).parse_args_and_config([*argv], fail_with_unknown_args=True)
    return args


def test_options_on_a_command_line_and_in_a_recipe_are_the_same(tmp_path):
    base = ["--output_dir", "out", "--use_cpu", "true", "--bf16", "false", "--credit", "gae"]
    assert parse(*base, "--credit_options", '{"gae_lambda": 0.9}').credit_options == {
        "gae_lambda": 0.9
    }
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("credit_options:\n  gae_lambda: 0.9\nconsistency_beta: .inf\n")
    args = parse("--config", str(recipe), *base)
    assert (args.credit_options, args.consistency_beta) == ({"gae_lambda": 0.9}, math.inf)


def table_row(option):
    default = repr(option.default) if option.default != "" else "''"
    return f"| `{option.name}` | `{default}` | {option.metadata['help']} |"


def test_the_table_in_docs_is_the_fields_help():
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `\w+` \| `.*` \| .* \|$", page, re.MULTILINE)
    assert rows == [table_row(option) for option in own_fields()]


# Batches


@given(st.data())
def test_what_divides_is_what_trl_makes_of_it(data):
    """Whole steps of whole micro-batches of all processes, and TRL's own rule of whole groups."""
    generations, at_once = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 8))
    prompts, step = (data.draw(st.none() | st.integers(1, 64)) for _ in range(2))
    rollouts = prompts * generations if prompts else step or at_once
    is_whole = (step is None or step % at_once == 0) and rollouts % (step or at_once) == 0
    settings = {"num_generations": generations, "per_device_train_batch_size": at_once}
    settings |= {"prompts_per_rollout_batch": prompts, "rollouts_per_optimizer_step": step}
    if is_whole and rollouts % generations == 0:
        args = make(**settings)
        assert args.generation_batch_size == rollouts
        assert args.gradient_accumulation_steps == (step or at_once) // at_once
    else:
        with pytest.raises(ValueError, match=r"must be|divisible"):
            make(**settings)


@pytest.mark.parametrize(
    ("processes", "settings"),
    [
        *[(7, {}), (8, {"rollouts_per_optimizer_step": 192}), (8, {"steps_per_generation": 80})],
        *[(8, {"generation_batch_size": 5120}), (8, {"gradient_accumulation_steps": 2})],
        (8, {"prompts_per_rollout_batch": None, "generation_batch_size": 320}),
    ],
)
def test_batches_of_several_processes(monkeypatch, processes, settings):
    monkeypatch.setattr(BARLConfig, "world_size", processes)
    paper = {"num_generations": 5, "per_device_train_batch_size": 8}
    paper |= {"prompts_per_rollout_batch": 1024, "rollouts_per_optimizer_step": 128}
    with pytest.raises(ValueError, match="must"):
        make(**paper | settings)
