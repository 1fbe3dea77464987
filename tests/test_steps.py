"""Steps, states and token values of spec.md section 1."""

from functools import partial

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
    turn_step_ends,
    turns_of,
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


def test_a_delimiter_inside_a_token_ends_the_step_with_that_token_and_none_may_be_empty():
    pieces = ["One.", "\n\nTwo", " three", "\n", "\nfour"]
    assert delimited_steps(range(5), decode=lambda k: pieces[k[0]], delimiter="\n\n") == [2, 5]
    with pytest.raises(ValueError, match="delimiter must not be empty"):
        delimited_steps([1], **CHARS, delimiter="")


def test_a_segmenter_that_returns_no_ends_is_refused():
    assert step_ends_of(range(4), lambda ids: torch.tensor([2, len(ids)])) == [2, 4]
    for ends in ("steps", ["first", "second"], [2, 3], [3, 2, 4], 4, None):
        with pytest.raises(ValueError, match="step_segmenter must return strictly ascending ends"):
            step_ends_of(range(4), lambda ids, ends=ends: ends)


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


# Turns

END, PADDING, WORD, OTHER = 2, 0, 5, 7


def turns(mask, token_ids):
    return turns_of(token_ids, mask, {END, PADDING})


def test_a_step_is_a_turn_with_its_observation():
    mask, ids_ = [1, 1, 1, 0, 0, 1, 1, 0, 1, 1], [5, 5, END, 7, 7, 5, END, 7, 5, END]
    assert turns(mask, ids_) == [(0, 2, 5, True), (5, 6, 8, True), (8, 9, 10, False)]
    assert turn_step_ends(ids_, mask, turns(mask, ids_), None) == [5, 8, 9]
    # a segmenter divides the words of turns
    each = partial(fixed_size_steps, step_size=1)
    assert turn_step_ends(ids_, mask, turns(mask, ids_), each) == [1, 5, 8, 9]


def test_another_may_write_the_end_of_a_turn():
    mask, ids_ = [1, 1, 0, 0, 1, 0], [5, 5, END, 7, 5, END]
    assert turns(mask, ids_) == [(0, 2, 4, True), (4, 5, 6, False)]
    assert turn_step_ends(ids_, mask, turns(mask, ids_), None) == [4, 5]


def test_text_that_is_put_into_a_turn_ends_none_whatever_it_says():
    mask, ids_ = [1, 1, 0, 0, 0, 1, 1, 1], [5, 5, 7, END, 7, 5, 5, END]
    assert turns(mask, ids_) == [(0, 7, 8, False)]
    pairs = partial(fixed_size_steps, step_size=3)
    assert turn_step_ends(ids_, mask, turns(mask, ids_), pairs) == [5, 6, 7]


def test_tools_write_behind_turns_whatever_ends_a_call():
    mask, ids_ = [1, 1, 0, 0, 1, 1], [5, 9, 7, END, 5, END]
    found = turns_of(ids_, mask, {END}, runs_are_turns=True)
    assert found == [(0, 2, 4, True), (4, 5, 6, False)]
    assert turn_step_ends(ids_, mask, found, None) == [4, 5]


def test_an_observation_that_no_turn_answers_is_the_last_state_but_behind_a_word_only():
    mask, ids_ = [1, 1, 0, 0], [5, END, 7, 7]
    assert turns(mask, ids_) == [(0, 1, 4, True)]
    assert turn_step_ends(ids_, mask, turns(mask, ids_), None) == [4]
    assert turns([0, 0], [7, 7]) == turn_step_ends([7, 7], [0, 0], [], None) == []


@st.composite
def masked_completions(draw):
    """Token ids with ends anywhere in others' text, and in the model's only where its run ends."""
    token_ids, mask = [], []
    for _ in range(draw(st.integers(0, 5))):
        own = draw(st.lists(st.just(WORD), min_size=1, max_size=6)) + [END] * draw(st.booleans())
        kinds = st.sampled_from([OTHER, END, PADDING])
        others = draw(st.lists(kinds, min_size=own[-1] == END, max_size=6))
        token_ids += [*own, *others]
        mask += [1] * len(own) + [0] * len(others)
    return token_ids, mask


@given(masked_completions(), st.none() | st.integers(1, 4))
def test_no_state_lies_in_an_observation_or_before_it(completion, size):
    token_ids, mask = completion
    segmenter = size and partial(fixed_size_steps, step_size=size)
    found = turns(mask, token_ids)
    ends = turn_step_ends(token_ids, mask, found, segmenter)
    assert ends == sorted({*ends}) and all(0 < end <= len(mask) for end in ends)
    for end in ends[:-1]:
        assert mask[end]  # the model speaks next
    if ends and ends[-1] < len(mask):  # behind the last state the turn ends, and nothing follows
        assert {*token_ids[ends[-1] :]} <= {END, PADDING}
    own = [k for k, is_own in enumerate(mask) if is_own]
    if own and token_ids[own[-1]] != END:
        assert ends[-1] > own[-1]  # each word of the model is in a step


@given(st.lists(st.sampled_from([WORD, END]), max_size=12), st.integers(1, 4))
def test_one_turn_has_the_steps_of_its_chain_of_thought(token_ids, size):
    mask, segmenter = [1] * len(token_ids), partial(fixed_size_steps, step_size=size)
    chain = chain_of_thought(token_ids, {END})
    found = turns_of(token_ids, mask, {END})
    assert turn_step_ends(token_ids, mask, found, segmenter) == segmenter(chain)
    assert not any(turn.has_observation for turn in found)
