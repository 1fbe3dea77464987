"""What ends a turn: tokens that are known, and the one that a chat template writes."""

from collections.abc import Sequence
from typing import Any

_MESSAGE = "made-up"


def turn_ends(tokenizer: Any, known: Sequence[int], **template_kwargs: Any) -> list[int]:
    """Return the tokens that end a turn: the known ones, and the chat template's.

    The template of a base model may end turns with another token than the model's EOS. It is the
    first token behind an assistant's message that is no text. Where a known one stands there too,
    a turn ends with that.

    Args:
        tokenizer: The model's.
        known: Ids of tokens that end a turn, such as the EOS.
        **template_kwargs: Variables of the chat template.

    Raises:
        ValueError: The template ends a message with mere text, which cannot end a completion.
    """
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _MESSAGE}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, **template_kwargs)
    behind = text.rpartition(_MESSAGE)[2] if _MESSAGE in text else ""
    ids, added = tokenizer.encode(behind, add_special_tokens=False), tokenizer.added_tokens_decoder
    if not behind.strip() or set(ids) & set(known):
        return [*known]
    ends = [token for token in ids if token in added]
    if not ends:
        raise ValueError(
            f"chat_template must end an assistant's message with one token of its own, got "
            f"{behind!r}, which is text: nothing would end a completion. Write the tokenizer's "
            "eos_token behind the message."
        )
    return [*known, ends[0]]
