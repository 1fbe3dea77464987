"""Completions of many prompts, sampled together, where the finished ones cost nothing more.

`generate` goes on with every row until the last one ends. On a CPU, where time goes with the number
of rows, most of that is wasted.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import Cache


@torch.no_grad()
def sample(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int | Sequence[int],
    end_ids: Collection[int],
    generator: torch.Generator,
    temperature: float = 1.0,
) -> list[list[int]]:
    """Sample a completion for each prompt from the model's own distribution.

    Args:
        model: A causal language model of transformers, in evaluation mode.
        prompts: Token ids of each prompt.
        max_new_tokens: Most tokens of a completion, at least 1: one number for all, or one each.
        end_ids: Token ids that end a turn.
        generator: Source of the draws, on the CPU; the same prompts get the same draws.
        temperature: Divides the logits.

    Returns:
        Token ids of each completion, with the one that ended it, if one did.
    """
    device = next(model.parameters()).device
    limits = max_new_tokens if isinstance(max_new_tokens, Sequence) else [max_new_tokens]
    limits = torch.tensor(limits).expand(len(prompts))
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    ends, alive = torch.tensor(list(end_ids)), torch.arange(len(prompts))
    cache: dict[str, Cache] = {}  # by its name, which depends on transformers' version
    completions: list[list[int]] = [[] for _ in prompts]
    while True:
        output = model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=positions.to(device),
            use_cache=True,
            logits_to_keep=1,
            **cache,
        )
        cache = {name: value for name, value in output.items() if isinstance(value, Cache)}
        probabilities = (output.logits[:, -1].float().cpu() / temperature).softmax(dim=-1)
        tokens = torch.multinomial(probabilities, 1, generator=generator)
        for row, token in zip(alive.tolist(), tokens[:, 0].tolist(), strict=True):
            completions[row].append(token)
        length = len(completions[alive[0]])
        keep = ~torch.isin(tokens[:, 0], ends) & (limits[alive] > length)
        if not keep.any():
            return completions
        if not keep.all():
            for each in cache.values():
                each.batch_select_indices(keep.nonzero()[:, 0].to(device))
        alive, ids, positions = alive[keep], tokens[keep], positions[keep, -1:] + 1
        mask = torch.cat([mask[keep], mask.new_ones(len(ids), 1)], dim=1)


def continued_texts(
    model: nn.Module,
    tokenizer: Any,
    states: Sequence[tuple[int, ...]],
    prompt_lengths: Sequence[int],
    *,
    max_new_tokens: Sequence[int],
    rows: int,
    end_ids: Collection[int],
    generator: torch.Generator,
) -> Iterator[str]:
    """Sample one continuation of each state, and yield the text of the whole completion.

    Args:
        model: A causal language model of transformers, in evaluation mode.
        tokenizer: The model's tokenizer.
        states: Token ids of prompt and completion. States of one length that are side by side need
            no padding.
        prompt_lengths: Tokens of the prompt of each state.
        max_new_tokens: Most tokens of each continuation; 0: the state is the whole completion.
        rows: Continuations that are sampled together.
        end_ids: Token ids that end a turn.
        generator: Source of the draws, on the CPU.
    """
    for start in range(0, len(states), rows):
        part = range(start, min(start + rows, len(states)))
        going = [n for n in part if max_new_tokens[n] > 0]
        continuations = (
            []
            if not going
            else sample(
                model,
                [states[n] for n in going],
                max_new_tokens=[max_new_tokens[n] for n in going],
                end_ids=end_ids,
                generator=generator,
            )
        )
        continuation_of = dict(zip(going, continuations, strict=True))
        for n in part:
            completion = [*states[n][prompt_lengths[n] :], *continuation_of.get(n, ())]
            yield tokenizer.decode(completion, skip_special_tokens=True)
