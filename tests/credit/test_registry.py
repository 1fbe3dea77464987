"""Estimators by name: what the registry promises of each, and what it says of a mistake."""

import dataclasses
import re
import subprocess
import sys
from inspect import Parameter, signature

import pytest
from hypothesis import given, settings

from barl_trl.credit import CREDITS, Credit, find_credit
from barl_trl.credit.gae import gae

from .scored import batches, check, group, rows, scored

NAMES = pytest.mark.parametrize("name", CREDITS)


def of_ones(rollouts, *, gae_lambda=1.0):
    """Stand for an estimator that a user wrote."""
    return gae(rollouts, gae_lambda=gae_lambda)


def of_needs(rollouts, *others, step_size, max_hypotheses, learning_rate, beta=1.0, **more):
    """Stand for an estimator that needs what is no setting of credits."""
    return gae(rollouts)


OF_ONES = Credit(of_ones, hypotheses="truth")
NOT_A_CREDIT = 3


@NAMES
def test_every_name_is_a_function_of_rollouts_with_keywords(name):
    found = find_credit(name)
    assert callable(found.function)
    first, *others = signature(found.function).parameters.values()
    assert first.name == "rollouts"
    assert all(other.kind is Parameter.KEYWORD_ONLY for other in others)
    assert all(other.default is not Parameter.empty for other in others)


@settings(max_examples=30)
@given(batches())
@NAMES
def test_a_credit_sees_no_answers_but_those_that_it_says_it_needs(name, rollouts):
    credit, batch = CREDITS[name], scored(rollouts)
    number = {"rollouts": None, "truth": 1, "none": 0}[credit.hypotheses]
    fewer = dataclasses.replace(
        batch,
        answer_logps=batch.answer_logps[..., :number],
        hypothesis_mask=batch.hypothesis_mask[:, :number],
        belief=batch.belief[..., :number],
    )
    check(rows(credit.function(fewer), rollouts), rows(credit.function(batch), rollouts))


def test_settings_are_those_that_the_estimator_takes():
    given_settings = {"gae_lambda": 0.5, "bootstrap_cut_off": True, "progress_space": "log"}
    assert CREDITS["gae"].settings(given_settings) == {"gae_lambda": 0.5}
    assert CREDITS["belief_critic"].settings(given_settings) == {
        "gae_lambda": 0.5,
        "bootstrap_cut_off": True,
    }
    assert CREDITS["grpo"].settings(given_settings) == {}
    assert CREDITS["gae"].settings({}) == {}


def test_a_dotted_path_names_a_function_which_gets_the_settings_of_barl():
    found = find_credit(f"{__name__}.of_ones")
    assert found == Credit(of_ones)
    assert found.settings({"gae_lambda": 0.5, "progress_space": "log"}) == {"gae_lambda": 0.5}
    values = found.function(scored(group(1.0, plausibilities=(0.25, 0.5))))
    assert values.steps.tolist() == [[0.75]]


def test_a_parameter_without_a_default_gets_none_and_one_that_no_setting_has_is_refused():
    found = find_credit(f"{__name__}.of_needs")
    given_settings = {"step_size": 8, "max_hypotheses": None, "beta": None, "others": 1, "more": 2}
    assert found.settings(given_settings) == {"step_size": 8, "max_hypotheses": None}
    found.refuse_unknown_parameters("mine", ["step_size", "max_hypotheses", "learning_rate"])
    with pytest.raises(ValueError, match="got 'learning_rate' of 'mine': give it one, or"):
        found.refuse_unknown_parameters("mine", ["step_size", "max_hypotheses", "beta"])


def test_a_dotted_path_names_a_credit_with_its_own_settings():
    assert find_credit(f"{__name__}.OF_ONES") is OF_ONES


@pytest.mark.parametrize(("typed", "meant"), [("gea", "gae"), ("belief_critics", "belief_critic")])
def test_a_misspelt_name_is_refused_with_the_one_that_was_meant(typed, meant):
    with pytest.raises(ValueError, match=rf"got '{typed}': did you mean '{meant}'\?"):
        find_credit(typed)


def test_a_name_that_is_like_no_other_is_refused_with_all_names():
    match = r"credit must be one of \['barl', .* 'likelihood'\] or a .*, got 'zzz': docs/credit.md"
    with pytest.raises(ValueError, match=match):
        find_credit("zzz")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("no_such_module.credit", "put"),
        ("a..b", "put"),
        (f"{__name__}.of_onse", "did you mean 'of_ones'?"),
        (f"{__name__}.zzz", "name a function"),
    ],
)
def test_a_path_that_does_not_import_is_refused(path, hint):
    message = r"must be a dotted path that can be imported, got .* " + re.escape(hint)
    with pytest.raises(ValueError, match=message):
        find_credit(path)


@pytest.mark.parametrize(("path", "kind"), [("NOT_A_CREDIT", "int"), ("dataclasses", "module")])
def test_a_path_to_something_else_is_refused(path, kind):
    with pytest.raises(ValueError, match=rf"function of ScoredRollouts.* which is of type {kind}:"):
        find_credit(f"{__name__}.{path}")


def test_names_are_known_without_torch():
    """Help and mistakes are to be quick."""
    code = "import sys, barl_trl.credit.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
