"""Which tokens end completions, the turns of the model."""

from collections.abc import Sequence
from typing import Any

from trl import is_conversational

from ..config import BARLConfig
from .turn_ends import turn_ends


def tell_ends(trainer: Any) -> None:
    """Let the token with which the chat template ends an assistant's message end completions, too.

    TRL ends completions with the EOS tokens of the tokenizer and of the model. This function also
    gives the template's token to generation, to the saved `generation_config`, and to
    `eos_token_ids`, which tells whether a completion was cut off.

    What it relies on in TRL: all of TRL reads `eos_token_ids`; `generation_kwargs` and
    `generation_config` decide where transformers ends a completion;
    `vllm_generation.generation_kwargs` decide where vLLM does.

    Args:
        trainer: A [`~trl.GRPOTrainer`].

    Raises:
        ValueError: The tokenizer has no chat template for messages, no token ends a message in the
            template, or `args.generation_kwargs` leaves that token out.
    """
    tokenizer, eos_token_ids = trainer._tokenizer, trainer.eos_token_ids
    ends = completion_ends(trainer.args, tokenizer, trainer.train_dataset, eos_token_ids)
    if ends == eos_token_ids:
        return
    trainer.eos_token_ids = trainer.model.generation_config.eos_token_id = ends
    if trainer.use_vllm:
        kwargs = trainer.vllm_generation.generation_kwargs
        trainer.vllm_generation.generation_kwargs = kwargs | {"stop_token_ids": ends}
    else:
        trainer.generation_kwargs["eos_token_id"] = ends
        trainer.generation_config.eos_token_id = ends
    trainer._say_once(
        "ends",
        f"completions also end with {_named(ends[len(eos_token_ids) :], tokenizer)}, as the chat "
        "template or generation_kwargs say.",
    )


def completion_ends(
    args: BARLConfig, tokenizer: Any, dataset: Any, end_ids: Sequence[Any]
) -> list[int]:
    """Return the ids of the tokens that end completions.

    These are `end_ids`, the end token of the chat template if prompts are messages, and the tokens
    that `args.generation_kwargs` name.

    Args:
        args: The settings.
        tokenizer: The model's tokenizer.
        dataset: The training set, whose first row tells whether prompts are messages.
        end_ids: Ids of tokens that end a turn anyway.

    Raises:
        ValueError: The template ends messages with text, or `generation_kwargs` leaves out the
            template's end token.
    """
    kwargs: Any = args.generation_kwargs or {}
    template_kwargs: Any = args.chat_template_kwargs or {}
    ends = [*end_ids]
    if is_conversational(next(iter(dataset))):
        ends = turn_ends(tokenizer, end_ids, **template_kwargs)
    users_ends = kwargs.get("stop_token_ids" if args.use_vllm else "eos_token_id") or []
    users_ends = [users_ends] if isinstance(users_ends, int) else users_ends
    missing = [token for token in ends[len(end_ids) :] if token not in users_ends]
    if users_ends and missing and not args.use_vllm:
        raise ValueError(
            f"generation_kwargs must leave out eos_token_id, or name "
            f"{_named(missing, tokenizer)} in it, got {users_ends}: the chat template ends an "
            "assistant's message with that."
        )
    return [*dict.fromkeys([*ends, *users_ends])]


def _named(ids: Sequence[int], tokenizer: Any) -> str:
    names = tokenizer.convert_ids_to_tokens(ids)
    return ", ".join(f"{name} ({token})" for name, token in zip(names, ids, strict=True))
