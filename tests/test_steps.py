"""Steps, states and token values of spec.md section 1."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.steps import (
    chain_of_thought,
    delimited_steps,
    fixed_size_steps,
    segmenter_of,
    spread_over_tokens,
    step_ends_of,
)

CHARS = {"decode": lambda ids: "".join(map(chr, ids))}


def ids(text):
    return [ord(c) for c in text]


@given(st.integers(0, 400), st.integers(1, 150))
def test_fixed_size_steps_cover_the_completion(length, step_size):
    ends = fixed_size_steps(range(length), step_size=step_size)
    assert len(ends) == -(-length // step_size)  # T = ceil(L / step_size)
    assert ends == [min((t + 1) * step_size, length) for t in range(len(ends))]


def test_steps_end_at_a_delimiter_or_have_a_size():
    text = ids("a\n\nbc\n\nd")
    assert segmenter_of(**CHARS, step_size=3, delimiter="\n\n")(text) == [3, 7, 8]
    assert segmenter_of(**CHARS, step_size=3, delimiter=None)(text) == [3, 6, 8]


@given(st.text("ab\n", max_size=30))
def test_delimited_steps_end_at_blank_lines(text):
    ends = delimited_steps(ids(text), **CHARS, delimiter="\n\n")
    assert ends == sorted(set(ends)) and (ends[-1] == len(text) if text else ends == [])
    steps = [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    assert "".join(steps) == text
    assert all("\n\n" not in step.rstrip("\n") and step.endswith("\n\n") for step in steps[:-1])


def test_delimiter_inside_a_token_ends_the_step_with_that_token():
    pieces = ["One.", "\n\nTwo", " three", "\n", "\nfour"]
    assert delimited_steps(range(5), decode=lambda k: pieces[k[0]], delimiter="\n\n") == [2, 5]


def test_empty_delimiter_is_refused():
    with pytest.raises(ValueError, match="delimiter must not be empty"):
        delimited_steps([1], **CHARS, delimiter="")


@pytest.mark.parametrize("ends", ["steps", ["first", "second"], [2, 3], [3, 2, 4], 4, None])
def test_a_segmenter_that_returns_no_ends_is_refused(ends):
    with pytest.raises(ValueError, match="step_segmenter must return strictly ascending ends"):
        step_ends_of(range(4), lambda ids: ends)


def test_ends_of_a_segmenter_may_be_a_tensor():
    assert step_ends_of(range(4), lambda ids: torch.tensor([2, len(ids)])) == [2, 4]


def test_nothing_behind_the_end_of_turn_is_reasoning():
    assert chain_of_thought([5, 6, 2, 2, 7], {2}) == [5, 6]
    assert chain_of_thought([5, 6], {2}) == [5, 6]
    assert chain_of_thought([2], {2}) == []


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 3))
def test_every_token_of_a_step_gets_its_value_and_the_rest_the_closing_value(
    lengths, step_size, padding
):
    ends = [fixed_size_steps(range(n), step_size=step_size) for n in lengths]
    values = torch.arange(float(len(lengths) * 40)).reshape(len(lengths), 40)
    closing = -1 - torch.arange(float(len(lengths)))
    num_tokens = max(lengths) + padding
    spread = spread_over_tokens(values, ends, closing, num_tokens=num_tokens)
    assert spread.shape == (len(lengths), num_tokens)
    for b, length in enumerate(lengths):
        for k in range(num_tokens):
            assert spread[b, k] == (values[b, k // step_size] if k < length else closing[b])
