"""Training problems that are evaluation problems are found, whatever their punctuation."""

import pytest

from barl_trl.data.decontamination import EvaluationProblems

from .problems import GSM8K, MATH

AIME = (
    "Each vertex of a regular octagon is independently colored red or blue with equal probability. "
    "The probability is $\\frac{m}{n}$, where $m$ and $n$ are relatively prime positive integers. "
    "Find $m+n$."
)
HELD_OUT = EvaluationProblems({"gsm8k": [GSM8K], "aime": [AIME], "math": [MATH], "both": [MATH]})


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (GSM8K.upper().replace(",", " ;"), ["gsm8k"]),
        ("Solve this problem. " + GSM8K.replace("altogether in April and May", "then"), ["gsm8k"]),
        (r"Simplify \dfrac {x + 1} 2", ["math", "both"]),
        (r"Simplify $\dfrac{x-1}{2}$.", []),  # a sign is a word
        (r"Simplify $\dfrac{x+1}{2}$ and $x$.", []),  # short ones only as a whole
        (
            "Two dice are thrown. The probability is $\\frac{m}{n}$, where $m$ and $n$ are "
            "relatively prime positive integers. Find $m+n$.",
            [],
        ),  # a turn of phrase is no problem
        ("Natalia sold clips to 48 of her friends.", []),
        ("", []),
    ],
)
def test_sets_that_a_text_is_in(text, sets):
    assert HELD_OUT.sets_with(text) == sets
