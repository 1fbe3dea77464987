"""Rollouts as columns. The whole table is checked in `test_rollout_recording.py`."""

import hashlib

import pytest
import torch

from barl_trl.trainer.logging.rollout_table import prompt_columns, token_column


def test_a_prompt_is_known_by_its_text(tokenizer):
    text = "Hälfte?\n"
    messages = [{"role": "user", "content": text}]
    ids = [tokenizer.encode(text)] * 2
    columns = prompt_columns([text, messages, text[:-1]], [*ids, [1]], tokenizer)
    assert columns["prompt"] == [text, text, text[:-1]]
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert columns["prompt_id"][:2] == [digest] * 2 != columns["prompt_id"][2:] * 2


def test_a_text_that_no_encoding_has_is_a_prompt_nevertheless(tokenizer):
    [digest] = prompt_columns(["\ud800"], [[1]], tokenizer)["prompt_id"]
    assert len(digest) == 12


@pytest.mark.parametrize("width", [1, 3])
def test_numbers_of_tokens_are_cut_to_the_completion(width):
    values = torch.tensor([[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]])[:, :width]
    ids = [[7, 8], []]
    expected = [[0.5, 0.5 if width == 1 else 1.0], []]
    assert token_column(values, ids).to_pylist() == expected
    assert token_column(None, ids) is None


def test_half_precision_and_gradients_are_no_hindrance():
    values = torch.tensor([[0.5]], dtype=torch.bfloat16, requires_grad=True)
    assert token_column(values, [[7]]).to_pylist() == [[0.5]]
