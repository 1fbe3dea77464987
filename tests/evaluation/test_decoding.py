"""How tokens are drawn, and what may stand beside what."""

import pytest

from barl_trl.evaluation.generation.decoding import FAMILIES, Drawing, choose_drawing


def test_a_family_stands_for_what_its_authors_advise():
    assert choose_drawing("r1", {"temperature": None}) == Drawing(0.6, top_p=0.95)
    assert FAMILIES["qwen3"].settings == {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    assert str(FAMILIES["qwen3_non_thinking"]) == "temperature 0.7, top_p 0.8, top_k 20"


def test_the_default_is_greedy():
    assert choose_drawing(None, {}) == Drawing()
    assert str(Drawing()) == "greedy"


def test_values_that_cut_nothing_off_are_as_good_as_none():
    """`--top_p 1` and no `--top_p` go on in the same folder."""
    given = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    assert choose_drawing(None, given) == Drawing(1.0)
    assert choose_drawing(None, given | {"temperature": 0.0}) == Drawing()


@pytest.mark.parametrize(
    ("family", "given", "message"),
    [
        ("qwen", {}, r"sampling must be one of r1, .*, got 'qwen': did you mean qwen3\?"),
        ("mine", {}, "got 'mine': or give temperature"),
        ("r1", {"temperature": 0.0}, "temperature must be left out with sampling=r1, got 0: it st"),
        ("r1", {"top_p": 0.9}, r"top_p must be left out .*: it stands for temperature 0.6, top_p "),
        (None, {"top_p": 0.9}, "top_p must be left out with temperature 0, got 0.9: greedy"),
        (None, {"temperature": 0.0, "top_k": 5}, "top_k must be left out with temperature 0, got"),
        (None, {"temperature": 0.0, "min_p": 0.1}, "min_p must be left out with temperature 0"),
        (None, {"temperature": -1.0}, "temperature must be a number of 0 or more, got -1.0: 0 is"),
        (None, {"temperature": float("nan")}, "temperature must be a number of 0 or more, got nan"),
        (None, {"temperature": 1.0, "top_p": 0.0}, "top_p must lie above 0 and not above 1, got 0"),
        (None, {"temperature": 1.0, "top_k": -1}, "top_k must be 0 or more, got -1: 0 keeps all"),
        (None, {"temperature": 1.0, "min_p": 1.5}, "min_p must lie between 0 and 1, got 1.5"),
    ],
)
def test_clashes_and_values_out_of_range_are_refused(family, given, message):
    with pytest.raises(ValueError, match=message):
        choose_drawing(family, given)
