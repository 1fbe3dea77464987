"""The arguments of `barl evaluate`, and their checks."""

import pytest

from barl_trl.commands.evaluate.arguments import EvaluateArguments
from barl_trl.evaluation.generation.decoding import Drawing

FIXED = {"model": "model", "benchmarks": "math500"}


def test_the_defaults_are_the_papers_pass_at_1():
    arguments = EvaluateArguments(**FIXED)
    assert (arguments.drawing, arguments.num_samples, arguments.max_tokens) == (Drawing(), 1, 2048)
    assert (arguments.grader, arguments.template) == ("math_verify", "auto")


@pytest.mark.parametrize("given", [None, "{}", {}])
def test_no_more_arguments_of_the_model(given):
    assert EvaluateArguments(**FIXED, model_init_kwargs=given).init_kwargs == {}


def test_more_arguments_of_the_model_are_json():
    arguments = EvaluateArguments(**FIXED, model_init_kwargs='{"dtype": "float32", "n": 2}')
    assert arguments.init_kwargs == {"dtype": "float32", "n": 2}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"model_init_kwargs": "dtype"},
            "model_init_kwargs must be a JSON object, got another text",
        ),
        ({"model_init_kwargs": "[1]"}, "model_init_kwargs must be a JSON object, got another text"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0:"),
        ({"limit": -3}, "limit must be at least 1, got -3:"),
        ({"temperature": float("inf")}, "temperature must be a number of 0 or more, got inf"),
        ({"temperature": -1.0}, "temperature must be a number of 0 or more, got -1.0: 0 is"),
        ({"temperature": float("nan")}, "temperature must be a number of 0 or more, got nan"),
        ({"num_samples": 6}, "num_samples must be 1 with temperature 0, got 6"),
        ({"top_p": 0.9}, "top_p must be left out with temperature 0, got 0.9: greedy"),
        ({"temperature": 0.0, "top_k": 5}, "top_k must be left out with temperature 0, got"),
        ({"temperature": 0.0, "min_p": 0.1}, "min_p must be left out with temperature 0"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p must lie above 0 and not above 1, got 0"),
        ({"temperature": 1.0, "top_k": -1}, "top_k must be 0 or more, got -1: 0 keeps all"),
        ({"temperature": 1.0, "min_p": 1.5}, "min_p must lie between 0 and 1, got 1.5"),
    ],
)
def test_a_value_that_breaks_its_rule_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        EvaluateArguments(**FIXED | changed)


def test_values_that_cut_nothing_off_are_as_good_as_none():
    """`--top_p 1` and no `--top_p` go on in the same folder."""
    given = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
    assert EvaluateArguments(**FIXED, **given, temperature=1.0).drawing == Drawing(1.0)
    assert EvaluateArguments(**FIXED, **given).drawing == Drawing()


def test_how_tokens_are_drawn_in_words():
    assert str(Drawing()) == "greedy"
    assert str(Drawing(0.6, top_p=0.95, top_k=20)) == "temperature 0.6, top_p 0.95, top_k 20"
