"""Rollouts as columns. The whole table is checked in `test_rollout_recording.py`."""

import hashlib

from barl_trl.trainer.recorder import prompt_columns


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
