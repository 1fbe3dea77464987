"""A completion is one turn of the model: what ends it, and which of its tokens are the model's."""

from collections.abc import Collection, Sequence
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

from trl import is_conversational

from ...rewards import Completion
from ...steps import chain_of_thought
from ..barl_config import BARLConfig
from .turn_ends import turn_ends


def tell_ends(trainer: Any) -> None:
    """End completions also with what the chat template puts behind an assistant's message.

    TRL ends them with the EOS of the tokenizer and those of the model. Generation gets the
    template's too, as do the saved `generation_config` and, by `eos_token_ids`, whatever asks
    whether a completion was cut off.

    Args:
        trainer: A [`~trl.GRPOTrainer`]. All of TRL asks its `eos_token_ids`; generation ends as
            `generation_kwargs` and `generation_config` say, with vLLM as
            `vllm_generation.generation_kwargs` do.

    Raises:
        ValueError: The tokenizer has no chat template for messages, no token ends one there, or
            `args.generation_kwargs` leaves it out.
    """
    tokenizer, known = trainer._tokenizer, trainer.eos_token_ids
    ends = completion_ends(trainer.args, tokenizer, trainer.train_dataset, known)
    if ends == known:
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
        f"completions also end with {_named(ends[len(known) :], tokenizer)}, as the chat "
        "template or generation_kwargs say.",
    )


def completion_ends(
    args: BARLConfig, tokenizer: Any, dataset: Any, known: Sequence[Any]
) -> list[int]:
    """Return the tokens that end completions: known ones, the chat template's and the user's.

    Args:
        args: Their `generation_kwargs` may name some.
        tokenizer: The model's.
        dataset: What is trained on: messages or texts.
        known: Ids of tokens that end a turn anyway.

    Raises:
        ValueError: The template ends messages with text, or `generation_kwargs` leaves its end out.
    """
    kwargs: Any = args.generation_kwargs or {}
    template_kwargs: Any = args.chat_template_kwargs or {}
    ends = [*known]
    if is_conversational(next(iter(dataset))):
        ends = turn_ends(tokenizer, known, **template_kwargs)
    given = kwargs.get("stop_token_ids" if args.use_vllm else "eos_token_id") or []
    given = [given] if isinstance(given, int) else given
    missing = [token for token in ends[len(known) :] if token not in given]
    if given and missing and not args.use_vllm:
        raise ValueError(
            f"generation_kwargs must leave out eos_token_id, or name "
            f"{_named(missing, tokenizer)} in it, got {given}: the chat template ends an "
            "assistant's message with that."
        )
    return [*dict.fromkeys([*ends, *given])]


def one_turn(output: tuple, tokenizer: Any, end_ids: Collection[int]) -> tuple:
    """Return what TRL's `_generate` does, with completions of the model's own text.

    A `rollout_func` may put other text into a turn. Neither answers nor rewards are read from it.

    Args:
        output: Token ids of prompts and completions, which of these are the model's (1 or 0; None:
            all), the completions, and more.
        tokenizer: The model's.
        end_ids: Token ids that end a turn. More of them and padding may stand behind the first.

    Raises:
        ValueError: The model goes on behind the end of its turn.
    """
    no_text = {*end_ids, tokenizer.pad_token_id}
    prompt_ids, completion_ids, masks, completions, *rest = output
    for n, ids in enumerate(completion_ids):
        mask, length = masks[n] if masks else [1] * len(ids), len(chain_of_thought(ids, end_ids))
        behind = compress(ids[length:], mask[length:])
        if any(token not in no_text for token in behind):
            raise ValueError(
                f"rollout_func must return one turn, got rollout {n} with an end of turn at token "
                f"{length} of {len(ids)} and tokens of the model behind it: they would have no "
                "weight. Return earlier turns as part of prompt_ids, or train with "
                "trl.GRPOTrainer."
            )
    if masks:
        completions = [
            _with_text(completion, _own_text(ids, mask, tokenizer)) if 0 in mask else completion
            for completion, ids, mask in zip(completions, completion_ids, masks, strict=True)
        ]
    return prompt_ids, completion_ids, masks, completions, *rest


def _own_text(ids: Sequence[int], mask: Sequence[int], tokenizer: Any) -> str:
    """Return the model's text, with a line break for what is not the model's."""
    runs = groupby(zip(ids, mask, strict=True), key=itemgetter(1))
    own = [[token for token, _ in run] for is_own, run in runs if is_own]
    return "\n".join(tokenizer.batch_decode(own, skip_special_tokens=True))


def _with_text(completion: Completion, text: str) -> Completion:
    return text if isinstance(completion, str) else [{**completion[-1], "content": text}]


def _named(ids: Sequence[int], tokenizer: Any) -> str:
    names = tokenizer.convert_ids_to_tokens(ids)
    return ", ".join(f"{name} ({token})" for name, token in zip(names, ids, strict=True))
