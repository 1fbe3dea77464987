"""How tokens are drawn, and what may stand beside what."""

import pytest

from barl_trl.evaluation.generation.decoding import Drawing, choose_drawing


def test_the_default_is_greedy():
    assert choose_drawing({}) == Drawing()
    assert str(Drawing()) == "greedy"
    assert str(Drawing(0.6, top_p=0.95)) == "temperature 0.6, top_p 0.95"


def test_values_that_cut_nothing_off_are_as_good_as_none():
    """`--top_p 1` and no `--top_p` go on in the same folder."""
    given = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    assert choose_drawing(given) == Drawing(1.0)
    assert choose_drawing(given | {"temperature": 0.0}) == Drawing()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"top_p": 0.9}, "top_p must be left out with temperature 0, got 0.9: greedy"),
        ({"temperature": 0.0, "top_k": 5}, "top_k must be left out with temperature 0, got"),
        ({"temperature": 0.0, "min_p": 0.1}, "min_p must be left out with temperature 0"),
        ({"temperature": -1.0}, "temperature must be a number of 0 or more, got -1.0: 0 is"),
        ({"temperature": float("nan")}, "temperature must be a number of 0 or more, got nan"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p must lie above 0 and not above 1, got 0"),
        ({"temperature": 1.0, "top_k": -1}, "top_k must be 0 or more, got -1: 0 keeps all"),
        ({"temperature": 1.0, "min_p": 1.5}, "min_p must lie between 0 and 1, got 1.5"),
    ],
)
def test_clashes_and_values_out_of_range_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        choose_drawing(given)
