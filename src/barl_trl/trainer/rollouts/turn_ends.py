"""`turn_ends` finds the token with which a chat template ends an assistant's message."""

from collections.abc import Sequence
from typing import Any

_MESSAGE = "made-up"


def turn_ends(tokenizer: Any, end_ids: Sequence[int], **template_kwargs: Any) -> list[int]:
    """Return the ids of the tokens that end a turn: `end_ids`, and the chat template's end token.

    The chat template of a base model may end turns with another token than the model's EOS: the
    first added token after an assistant's message. If a token of `end_ids` follows the message,
    too, that token ends the turn, and none is added.

    Args:
        tokenizer: The model's tokenizer.
        end_ids: Ids of tokens that end a turn anyway, such as the EOS.
        **template_kwargs: Variables of the chat template.

    Raises:
        ValueError: The template ends a message with mere text, which cannot end a completion.
    """
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _MESSAGE}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, **template_kwargs)
    behind = text.rpartition(_MESSAGE)[2] if _MESSAGE in text else ""
    ids, added = tokenizer.encode(behind, add_special_tokens=False), tokenizer.added_tokens_decoder
    if not behind.strip() or set(ids) & set(end_ids):
        return [*end_ids]
    added_ids = [token for token in ids if token in added]
    if not added_ids:
        raise ValueError(
            f"chat_template must end an assistant's message with one token of its own, got "
            f"{behind!r}, which is text: nothing would end a completion. Write the tokenizer's "
            "eos_token behind the message."
        )
    return [*end_ids, added_ids[0]]
