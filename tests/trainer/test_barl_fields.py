"""The fields that BARL adds to TRL's: their rules, and one text per field."""

import math
import re
import subprocess
import sys

import pytest
from barl_trl.trainer.barl_fields import BARLFields, barl_fields
from hypothesis import given
from hypothesis import strategies as st
from transformers import HfArgumentParser

from ..paths import ROOT


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
        (
            {"answer_likelihood": "max"},
            r"must be one of \['mean', 'sum', 'token_mean', None\], got 'max'",
        ),
        ({"outcome_mode": "truth"}, "outcome_mode must be one of"),
        (
            {"outcome_mode": "hypothesis", "credit": "progress"},
            "outcome_mode must be 'ground_truth' with credit='progress', got 'hypothesis': it is a "
            "setting of barl.",
        ),
        ({"credit": "barll"}, "credit must be one of .*, got 'barll': did you mean 'barl'"),
        (
            {"credit": "tests.credit.test_registry.of_needs"},
            "credit must have a default for each parameter that is no field of BARLFields, got "
            "'learning_rate' of 'tests.credit.test_registry.of_needs': give it one, or the name of",
        ),
        ({"credit": "no.such.module"}, "credit must be a dotted path that can be imported"),
        (
            {"progress_space": "log", "credit": "gae"},
            "progress_space must be 'probability' with credit='gae', got 'log': it is a setting of "
            "progress, information_gain.",
        ),
        (
            {"extraction": "stately"},
            r"extraction must be one of \['boxed', 'stated', 'last_number'\], got 'stately': the",
        ),
        ({"gae_lambda": 1.5}, r"gae_lambda must be in \[0, 1\], got 1.5"),
        ({"bootstrap_cut_off": 1}, "bootstrap_cut_off must be true or false or None, got 1"),
        ({"credit_baseline": "mean"}, "credit_baseline must be one of"),
        ({"value_normalization": "std"}, "value_normalization must be one of"),
        ({"scoring_method": "fast"}, "scoring_method must be one of"),
        ({"scoring_max_tokens": 0}, "scoring_max_tokens must be at least 1"),
        ({"max_answer_chars": 0}, "max_answer_chars must be at least 1"),
        ({"max_hypotheses": 1}, "max_hypotheses must be at least 2.*credit='progress'"),
        ({"plausibility_temperature": 0.0}, "plausibility_temperature must be greater than 0"),
        ({"elicitation": ""}, "elicitation must not be empty"),
        ({"elicitation": None}, "elicitation must be a text, got None"),
    ],
)
def test_refusals_name_field_value_and_way_out(settings, message):
    with pytest.raises(ValueError, match=message):
        BARLFields(**settings)


@given(st.floats() | st.integers())
def test_any_number_from_0_to_infinity_is_a_consistency_beta(beta):
    if beta >= 0:
        assert BARLFields(consistency_beta=beta).consistency_beta == beta
    else:
        with pytest.raises(ValueError, match="consistency_beta must be in"):
            BARLFields(consistency_beta=beta)


def test_none_is_no_limit():
    limits = ("max_completion_length", "max_hypotheses", "scoring_max_tokens")
    fields = BARLFields(**dict.fromkeys(limits))
    assert [getattr(fields, name) for name in limits] == [None] * 3


def test_rules_are_the_same_once_a_parser_has_read_the_fields():
    """transformers' parser writes other types into the fields of the class that it parses."""
    [parsed] = HfArgumentParser(BARLFields).parse_args_into_dataclasses(["--max_hypotheses", "3"])
    assert parsed == BARLFields(max_hypotheses=3)
    with pytest.raises(ValueError, match="max_hypotheses must be an integer or None, got '3'"):
        BARLFields(max_hypotheses="3")


def test_help_and_mistakes_need_neither_torch_nor_trl():
    code = (
        "import sys; from barl_trl.trainer.barl_fields import BARLFields; BARLFields(); "
        "print([name for name in ('torch', 'transformers', 'trl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def table_row(option):
    default = repr(option.default) if option.default != "" else "''"
    return f"| `{option.name}` | `{default}` | {option.metadata['help']} |"


def test_the_table_in_docs_is_the_fields_help():
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `\w+` \| `.*` \| .* \|$", page, re.MULTILINE)
    assert rows == [table_row(option) for option in barl_fields()]
