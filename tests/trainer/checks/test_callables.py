"""Functions that users hand in: what is no answer, verdict or end of a step is refused at once."""

import numpy as np
import pytest
import torch

from barl_trl.trainer.checks.callables import (
    answer_equivalence_of,
    answer_extractor_of,
    try_step_segmenter,
)


@pytest.mark.parametrize(
    ("extractor", "message"),
    [
        (len, "answer_extractor must return a text, or None without an answer, got 24"),
        (lambda text: [text], "answer_extractor must return a text"),
        (lambda texts: [None for _ in texts], "answer_extractor must return a text"),  # batched
        (lambda text: text["content"], "answer_extractor must take one completion, got TypeError"),
        (lambda: "4", "answer_extractor must take one completion, got TypeError"),
        ("qwne", "grader must be one of .* got 'qwne': did you mean 'qwen'"),
    ],
)
def test_extractors_refused(extractor, message):
    with pytest.raises((TypeError, ValueError), match=message) as refusal:
        answer_extractor_of(extractor)
    assert refusal.value.__cause__ is refusal.value.__context__ is None


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
        (lambda a: True, "answer_equivalence must take two answers, got TypeError"),
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


@pytest.mark.parametrize(
    ("segmenter", "message"),
    [
        (lambda ids: "steps", "step_segmenter must return strictly ascending ends"),
        (lambda ids: ["first", "second"], "step_segmenter must return strictly ascending ends"),
        (lambda ids: [2, 3], "step_segmenter must return strictly ascending ends"),
        (lambda ids: 4, "step_segmenter must return strictly ascending ends"),
        (lambda ids: None, "step_segmenter must return strictly ascending ends"),
        (lambda ids: ids.split(), "step_segmenter must take token ids, got AttributeError"),
    ],
)
def test_segmenters_refused(segmenter, message):
    with pytest.raises(ValueError, match=message):
        try_step_segmenter(segmenter)


def test_segmenters_taken():
    try_step_segmenter(None)
    try_step_segmenter(lambda ids: torch.tensor([2, len(ids)]))
