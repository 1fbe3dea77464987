"""Completion tokens, turns and reasoning steps: where steps end, which states they lead to, and
their values on tokens.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import accumulate, groupby, pairwise, takewhile
from operator import index
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

StepSegmenter = Callable[[Sequence[int]], list[int]]
"""Chain-of-thought token ids -> the ends of its steps: ascending token counts, the last one the
number of tokens.
"""


def chain_of_thought(completion_ids: Sequence[int], end_ids: Collection[int]) -> list[int]:
    """Return the completion up to its end-of-turn token, which is no reasoning itself."""
    return [*takewhile(lambda token: token not in end_ids, completion_ids)]


class Turn(NamedTuple):
    """A turn of the model in a completion, and the observation behind it, in completion tokens."""

    start: int
    """Its first token."""
    end: int
    """Where its words end: the place of the token that ends the turn, if one does."""
    stop: int
    """Where the next turn begins, behind the observation; the completion's length if none does."""
    has_observation: bool
    """Whether another's text, such as a tool's result, follows the turn."""


def turns_of(
    token_ids: Sequence[int],
    mask: Sequence[int],
    end_ids: Collection[int],
    *,
    runs_are_turns: bool = False,
) -> list[Turn]:
    """Return the turns of a completion.

    A turn ends where the model wrote a token of `end_ids`, or where such a token follows its words
    directly. Another's text elsewhere, which was put into a turn, ends none, whatever it says.

    Args:
        token_ids: Token ids of the completion.
        mask: 1 for each token that the model wrote, 0 for the others.
        end_ids: Ids of the tokens that end a turn, and of the padding.
        runs_are_turns: Whether others only write behind turns, as tools do in TRL's loop. Then each
            run of the model's tokens is a turn, whatever ends it; padding within it is the model's.
    """
    length, starts, ends = len(token_ids), [], []
    is_over, stop = True, 0
    for is_own, run in groupby(mask, key=bool):
        start, stop = stop, stop + len([*run])
        if not is_own:
            continue
        if is_over:
            starts.append(start)
            ends.append(stop)
        first = stop - 1 if runs_are_turns else start
        ends[-1] = next((k for k in range(first, stop) if token_ids[k] in end_ids), stop)
        is_over = runs_are_turns or ends[-1] < stop
        is_over = is_over or (stop < length and token_ids[stop] in end_ids)
    turns = [Turn(*places, True) for places in zip(starts, ends, starts[1:], strict=False)]
    if starts:
        behind = range(ends[-1], length)
        is_followed = any(not mask[k] and token_ids[k] not in end_ids for k in behind)
        turns.append(Turn(starts[-1], ends[-1], length, is_followed))
    return turns


def turn_step_ends(
    token_ids: Sequence[int],
    mask: Sequence[int],
    turns: Sequence[Turn],
    step_segmenter: "StepSegmenter | None",
) -> list[int]:
    """Return the ends of the steps of a completion of any number of turns.

    A step is a turn with its observation, or a part of the turn's words. So the state behind a step
    never lies inside an observation, nor between a turn and its observation.

    `token_ids` and `mask` are those of [`turns_of`], which found the turns. The segmenter divides
    the words of each turn; None: a turn is one step. The ends are ascending token counts, none if
    the model wrote nothing.

    Raises:
        ValueError: The segmenter does not return the ends of steps.
    """
    ends: set[int] = set()
    for start, end, stop, has_observation in turns:
        start = 0 if start == turns[0].start else start
        if step_segmenter is not None:
            cuts = step_ends_of(token_ids[start:end], step_segmenter)[:-1]
            # a cut in another's text, which was put into the turn, moves behind it
            moved = (next((k for k in range(start + cut, end) if mask[k]), end) for cut in cuts)
            ends.update(moved)
        ends.add(stop if has_observation else end)
    return sorted(ends - {0})


def fixed_size_steps(token_ids: Sequence[int], *, step_size: int) -> list[int]:
    """Return ends of steps of `step_size` tokens; the last may be shorter (the paper's choice).

    Example:
        >>> fixed_size_steps(range(300), step_size=128)
        [128, 256, 300]
    """
    return [*range(step_size, len(token_ids), step_size), len(token_ids)] if token_ids else []


def delimited_steps(
    token_ids: Sequence[int], *, decode: Callable[[list[int]], str], delimiter: str
) -> list[int]:
    r"""Return ends of steps that are separated by a text, such as a blank line or a special token.

    A step ends with the token that completes its delimiter; consecutive delimiters end one step.

    Args:
        token_ids: Chain-of-thought token ids.
        decode: The tokenizer's `decode`, special tokens kept.
        delimiter: For example `"\n\n"`.

    Raises:
        ValueError: `delimiter` is empty.
    """
    if not delimiter:
        raise ValueError("delimiter must not be empty, got '': use '\\n\\n' for blank lines.")
    texts = {token: decode([token]) for token in set(token_ids)}
    pieces = [texts[token] for token in token_ids]
    char_ends = list(accumulate(map(len, pieces)))
    delimiters = re.finditer(f"(?:{re.escape(delimiter)})+", "".join(pieces))
    ends = {bisect_left(char_ends, match.end()) + 1 for match in delimiters} | {len(token_ids)}
    return sorted(ends - {0})


def segmenter_of(
    decode: Callable[[list[int]], str], *, step_size: int, delimiter: str | None
) -> StepSegmenter:
    """Return the segmenter of [`delimited_steps`], or without a delimiter [`fixed_size_steps`]."""
    if delimiter is None:
        return partial(fixed_size_steps, step_size=step_size)
    return partial(delimited_steps, decode=decode, delimiter=delimiter)


def step_ends_of(token_ids: Sequence[int], step_segmenter: StepSegmenter) -> list[int]:
    """Return the ends of the steps that a segmenter finds, checked.

    Raises:
        ValueError: The ends are not ascending token counts up to the number of tokens.
    """
    output: Any = step_segmenter(token_ids)
    try:
        ends = [index(end) for end in output]
    except TypeError:  # it returned texts, or no list at all
        ends = [-1]
    is_ascending = all(a < b for a, b in pairwise([0, *ends]))
    if not is_ascending or (ends[-1] if ends else 0) != len(token_ids):
        raise ValueError(
            "step_segmenter must return strictly ascending ends of steps, the last one the number "
            f"of tokens ({len(token_ids)}; none for an empty chain of thought), got {output!r:.80}."
        )
    return ends


def spread_over_tokens(
    step_values: Float[Tensor, "batch step"],
    step_ends: Sequence[Sequence[int]],
    closing_values: Float[Tensor, " batch"],
    *,
    num_tokens: int,
) -> Float[Tensor, "batch token"]:
    """Give every token the value of its step: `token_values[b, k] = step_values[b, t]` for
    `end(t-1) <= k < end(t)`.

    Args:
        step_values: Value of each step, padded.
        step_ends: Ends of each rollout's steps, as a segmenter gives them; empty for an empty chain
            of thought.
        closing_values: Value of the tokens after the last step: the end-of-turn token is an action
            at `s_T`, where the sum in eq. (def_q_m) is empty and the outcome reward alone remains.
        num_tokens: Length of the padded completions.
    """
    columns = []
    for values, ends, closing in zip(step_values, step_ends, closing_values, strict=True):
        sizes = torch.diff(torch.tensor([0, *ends]), append=torch.tensor([num_tokens]))
        per_step = torch.cat([values[: len(ends)], closing[None]])
        columns.append(per_step.repeat_interleave(sizes.to(values.device)))
    return torch.stack(columns)
