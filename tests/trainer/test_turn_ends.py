"""The token that a chat template puts behind an assistant's message, in every family's template."""

import copy
from pathlib import Path

import pytest
import trl

from barl_trl.trainer.rollouts.turn_ends import turn_ends

CHAT_TEMPLATES = Path(trl.__file__).parent / "chat_templates"
"""The families' own, as TRL ships them."""


def found(tokenizer, chat, eos="<|endoftext|>", **kwargs):
    """The ends, beside the tokenizer's EOS, under a chat template or one that TRL has a file of."""
    tokenizer = copy.deepcopy(tokenizer)
    special = ["<|eot_id|>", "<end_of_turn>", "<|end|>", "<|return|>", "<|user|>", "<|shut|>"]
    tokenizer.add_special_tokens({"eos_token": eos, "extra_special_tokens": special})
    path = CHAT_TEMPLATES / chat
    tokenizer.chat_template = path.read_text() if chat.endswith(".jinja") else chat
    ends = turn_ends(tokenizer, [tokenizer.eos_token_id], **kwargs)
    assert ends[0] == tokenizer.eos_token_id
    return tokenizer.convert_ids_to_tokens(ends[1:])


@pytest.mark.parametrize(
    ("chat", "ends"),
    [
        ("qwen2_5.jinja", ["<|im_end|>"]),
        ("qwen3.jinja", ["<|im_end|>"]),
        ("llama3_2.jinja", ["<|eot_id|>"]),
        ("gemma3.jinja", ["<end_of_turn>"]),
        ("gptoss.jinja", ["<|return|>"]),
        ("phi3.jinja", []),  # it puts its EOS behind <|end|>
        ("glm4moe.jinja", []),  # only another message ends one
    ],
)
def test_a_base_models_turn_ends_as_its_template_says(tokenizer, chat, ends):
    assert found(tokenizer, chat) == ends


def test_a_turn_that_ends_in_the_eos_has_no_other_end(tokenizer):
    assert found(tokenizer, "qwen2_5.jinja", eos="<|im_end|>") == []


@pytest.mark.parametrize(
    ("behind", "ends"),
    [
        ("\n\n", []),
        ("\n<|shut|><|im_end|>", ["<|shut|>"]),
        ("<|shut|><|endoftext|>", []),  # what the model is known to end with
        (" THE END<|shut|>", ["<|shut|>"]),
    ],
)
def test_the_first_token_of_its_own_ends_a_turn(tokenizer, behind, ends):
    assert found(tokenizer, "{% for m in messages %}{{ m.content }}{% endfor %}" + behind) == ends


def test_variables_of_the_template_count(tokenizer):
    chat = "{% for m in messages %}{{ m.content }}{{ close }}{% endfor %}"
    assert found(tokenizer, chat, close="<|shut|>") == ["<|shut|>"]


def test_a_template_without_the_message_says_nothing(tokenizer):
    assert found(tokenizer, "{{ messages[0]['content'] }}<|shut|>") == []


def test_text_that_ends_a_turn_is_refused(tokenizer):
    chat = "{% for m in messages %}{{ m.content }}\n### End\n{% endfor %}"
    message = r"chat_template must end an assistant's message with one token .* got '\\n### End\\n'"
    with pytest.raises(ValueError, match=message):
        found(tokenizer, chat)
