"""Functions that users hand in: what is no answer or verdict is refused at once."""

import numpy as np
import pytest
import torch
from barl_trl.trainer.checks.callables import answer_equivalence_of, answer_extractor_of


@pytest.mark.parametrize(
    ("extractor", "message"),
    [
        (len, "answer_extractor must return a text, or None without an answer, got 24"),
        (lambda text: [text], "answer_extractor must return a text"),
        (lambda texts: [None for _ in texts], "answer_extractor must return a text"),  # batched
        (lambda: "4", r"takes 0 positional arguments but 1 was given"),
        ("qwne", "grader must be one of .* got 'qwne': did you mean 'qwen'"),
    ],
)
def test_extractors_refused(extractor, message):
    with pytest.raises((TypeError, ValueError), match=message):
        answer_extractor_of(extractor)


def test_an_extractor_is_checked_on_each_text():
    extract = answer_extractor_of(lambda text: None if "boxed" in text else 7)
    assert extract(r"\boxed{2}") is None
    with pytest.raises(TypeError, match="answer_extractor must return a text"):
        extract("7")


def test_graders_are_taken_by_their_names():
    assert answer_extractor_of("math_verify")(r"\boxed{\frac12}") == r"\frac12"
    assert answer_equivalence_of("math_verify")("0.5", r"\frac12")
    assert not answer_equivalence_of("string")("x+1", "1+x")
    assert answer_extractor_of(None) is answer_equivalence_of(None) is None


@pytest.mark.parametrize(
    ("equivalence", "message"),
    [
        (lambda a: True, "takes 1 positional argument but 2 were given"),
        (lambda a, b: [True, True], "answer_equivalence must return True or False, got"),
        (lambda a, b: None, "answer_equivalence must return True or False, got None"),
        (lambda a, b: 0.93, "answer_equivalence must return True or False, got 0.93"),
    ],
)
def test_equivalences_refused(equivalence, message):
    with pytest.raises((TypeError, ValueError), match=message):
        answer_equivalence_of(equivalence)


@pytest.mark.parametrize("one", [True, np.True_, torch.tensor(True)])
def test_truth_values_of_all_kinds_are_taken(one):
    assert answer_equivalence_of(lambda a, b: one)("4", "5") is True
