"""Search for faults of a model in rows that are trees, are padded or are read from a cache.

In bfloat16 rounding changes a log-probability more than some faults do. So structure decides
first, in rows of equal shape, where equal kernels give equal bits. Other tokens at places that a
token must not see may not change its values (with a mixture of experts no more than rounding does);
other tokens at places that it must see have to change them. Positions are right if positions that
are off by one fit worse. At last values are compared with re-encoding, and a cache with the keys
and values that the model computes now. The measure is the noise that one rounding of the embeddings
makes in the same model.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..forward import ForwardRequest, token_logps
from ..kv_cache import CachedRow, GenerationCache, cache_of
from ..queries import Rollout
from ..tree.rows import Layout, Row, reencoded_rows, shared_prefix_rows
from .model_traits import causal_lm, compute_device, has_experts, shared_layout
from .reference import (
    MOST_NOISE,
    NEGLIGIBLE,
    Reference,
    embeddings_rounded,
    mean_difference,
    why_too_far,
)

_FITS_BETTER = 0.75
"""Positions are wrong if moving them by one leaves less than this share of the difference."""

_NEGLIGIBLE_SHARE = 1e-2
"""Difference of keys and values, as a share of their norm, that is no fault: TF32 makes some, which
no dtype tells. bfloat16 makes up to 0.03.
"""


def why_not_exact(
    model: nn.Module, reference: Reference, elicitation_ids: Sequence[int], max_tokens: int
) -> str | None:
    """Say what is wrong with rows that are trees; None if nothing is wrong.

    Args:
        model: The model.
        reference: Re-encoded values of a rollout, and the model's noise.
        elicitation_ids: Token ids of the common elicitation.
        max_tokens: Most tokens of one forward pass.
    """
    rows = []
    for probe in reference.probes:
        (row,) = shared_prefix_rows([probe], elicitation_ids)
        unseen = [_unseen(probe, row, i) for i in range(len(probe.state_positions) + 1)]
        garbled = [_garbled(row, places) for places in unseen]
        rows = [row, *garbled, shifted(row, -1), shifted(row, 1)]
    request = ForwardRequest(
        reference.probes * len(rows),
        [
            row._replace(scored=[token._replace(rollout=i) for token in row.scored])
            for i, row in enumerate(rows)
        ],
        shared_layout(model),
        max_tokens=1,  # each row alone: equal shapes, equal kernels
    )
    row_logps = token_logps(model, request).answers.cpu()
    if not reference.probes:
        return None
    clean, (*shallow, deepest, seen), moved = row_logps[0], row_logps[1:-2], row_logps[-2:]
    last_state = reference.probes[0].state_positions[-1]
    garbled_answer, _ = _first_answer(rows[0], branch(rows[0], last_state))
    others = [answer for answer in range(deepest.shape[1]) if answer != garbled_answer]
    leak = mean_difference(deepest[-1, others], clean[-1, others])
    for state, answers in enumerate(shallow):
        leak = max(leak, mean_difference(answers[: state + 1], clean[: state + 1]))
    # An expert that gets other tokens of other branches multiplies matrices of another shape.
    if leak > MOST_NOISE * reference.noise * has_experts(model):
        return "tokens see what their tree hides from them"
    if not (seen != clean).flatten(1).any(1).all():
        return "tokens do not see their state"
    gap, *off = (mean_difference(logps, reference.logps.cpu()) for logps in (clean, *moved))
    if gap > NEGLIGIBLE and min(off) < _FITS_BETTER * gap:
        return f"positions are wrong: {gap:.2g} nats per token, {min(off):.2g} if moved by one"
    return why_too_far("packed rows are", gap, reference.noise)


def why_not_padded(
    model: nn.Module,
    reference: Reference,
    elicitation_ids: Sequence[int],
    max_tokens: int,
    layout: Layout,
) -> str | None:
    """Say why a row's values change if a longer row is beside it; None if they do not.

    Half of a rollout is fed alone, and beside the whole rollout. Where attention goes to the top k
    places of a row, the row's width breaks ties. That changes few rows, so the check also looks for
    such choices.

    Args:
        model: The model.
        reference: Re-encoded values of a rollout, and the model's noise.
        elicitation_ids: Token ids of the common elicitation.
        max_tokens: Most tokens of one forward pass.
        layout: How the rows are fed.
    """
    whole = [rollout.token_ids[: max(4, max_tokens // 2)] for rollout in reference.probes]
    halves = [Rollout(ids[: (len(ids) + 1) // 2], [1], [], score_from=1) for ids in whole]
    pairs = [*halves, *(Rollout(ids, [1], [], score_from=1) for ids in whole)]
    logps, sizes = [], []
    for rollouts in (halves, pairs):
        rows = reencoded_rows(rollouts, elicitation_ids)
        with _TopK() as top:
            request = ForwardRequest(rollouts, rows, layout, max_tokens)
            logps.append(token_logps(model, request).completions[:1])
        sizes.append(top.sizes)
    alone, padded = logps
    if sizes[0] != sizes[1] and halves:
        return "it picks the top k places of a row, and padding may change which"
    gap = mean_difference(alone, padded[:, : alone.shape[1]])
    return why_too_far("padded rows are", gap, reference.noise)


def why_stale(
    model: nn.Module,
    reference: Reference,
    elicitation_ids: Sequence[int],
    max_tokens: int,
    cache: GenerationCache,
) -> str | None:
    """Say how far a rollout's cache is from what the model computes; None if it is near enough.

    The median over the places of each layer decides, for a mixture of experts may send a few tokens
    to other experts. Then the values of answers that are read after the cache are compared, too.

    Args:
        model: The model.
        reference: Re-encoded values of a rollout, and the model's noise.
        elicitation_ids: Token ids of the common elicitation.
        max_tokens: Most tokens of one forward pass.
        cache: Keys and values of the rollout alone.
    """
    probes = reference.probes
    (length,) = cache.lengths(probes)
    checked = min(length, max_tokens)
    token_ids = probes[0].token_ids[:checked]
    fresh = _filled(model, token_ids)
    with embeddings_rounded(causal_lm(model)):
        rounded = _filled(model, token_ids)
    for layer in range(len(cache.rows[0].layers)):
        kept, now, noisy = (each.prefix(layer, 0, checked) for each in (cache, fresh, rounded))
        for gap, noise in zip(map(_share, kept, now), map(_share, noisy, now), strict=True):
            if gap > max(MOST_NOISE * noise, _NEGLIGIBLE_SHARE):
                return (
                    f"its keys and values are off by {gap:.2g} of their norm in layer {layer} "
                    f"(one rounding makes {noise:.2g})"
                )
    rows = shared_prefix_rows(probes, elicitation_ids, num_cached=[length])
    request = ForwardRequest(probes, rows, shared_layout(model), max_tokens, cache=cache)
    gap = mean_difference(token_logps(model, request).answers[0], reference.logps)
    return why_too_far("answers after its keys and values are", gap, reference.noise)


def _filled(model: nn.Module, token_ids: Sequence[int]) -> GenerationCache:
    """Compute the keys and values of the tokens. The head sees the last token only."""
    base, inputs = causal_lm(model), torch.tensor([token_ids], device=compute_device(model))
    head: Any = base.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, args: (args[0][:, -1:],))
    try:
        output = base(
            input_ids=inputs,
            position_ids=torch.arange(len(token_ids), device=inputs.device)[None],
            use_cache=True,
        )
    finally:
        hook.remove()
    layers = [(layer.keys, layer.values) for layer in cache_of(output).layers]
    return GenerationCache([CachedRow(layers, [*token_ids])])


def _share(a: Float[Tensor, "1 G N d"], b: Float[Tensor, "1 G N d"]) -> float:
    """Return the median over the places of `|a - b| / |b|`."""
    difference, norm = (each.float().transpose(1, 2).flatten(2).norm(dim=-1) for each in (a - b, b))
    return (difference / norm.clamp(min=1e-30)).median().item()


class _TopK(TorchFunctionMode):
    """Record among how many values `topk` picks inside a `with`."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: set[int] = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.__name__ == "topk":
            scores = args[0] if args else kwargs["input"]
            self.sizes.add(scores.shape[args[2] if len(args) > 2 else kwargs.get("dim", -1)])
        return func(*args, **kwargs)


def _unseen(probe: Rollout, row: Row, which: int) -> list[int]:
    """Return the places that are garbled in one of several equal rows.

    For each state but the last these are all deeper places. For the last state these are the
    branches of the other states, and the answer that comes first in its own branch. For `which`
    after the last state these are the last tokens of all states: the branch of a state sees its
    last token, whatever the attention window is.
    """
    positions = probe.state_positions
    if which == len(positions):
        return [position - 1 for position in positions]
    places = branch(row, positions[which])
    if which < len(positions) - 1:
        return [*range(positions[which], places.start)]
    return [*_first_answer(row, places)[1], *range(places.stop, len(row.token_ids))]


def branch(row: Row, position: int) -> range:
    """Return the places of the branch after a state of `position` tokens in a rollout's row."""
    trunk_stop = row.blocks[0].trunk_stop
    start = row.subtree_ends[position] if position < trunk_stop else trunk_stop
    return range(start, row.subtree_ends[position - 1])


def _first_answer(row: Row, places: range) -> tuple[int, list[int]]:
    """Return which answer comes first in a branch, and the places that are below it alone."""
    read: dict[int, set[int]] = {place: set() for place in places}
    for token in row.scored:
        if token.position in read:
            read[token.position].add(token.hypothesis)
    below = {
        place: set().union(*(read[other] for other in range(place, row.subtree_ends[place])))
        for place in places
    }
    first = next((min(answers) for answers in below.values() if len(answers) == 1), -1)
    return first, [place for place, answers in below.items() if answers == {first}]


def _garbled(row: Row, places: Sequence[int]) -> Row:
    """Return a copy of a row with other tokens of the same row at some places."""
    distinct, token_ids = sorted(set(row.token_ids)), list(row.token_ids)
    for place in places:
        token_ids[place] = distinct[distinct.index(token_ids[place]) - 1]
    return row._replace(token_ids=token_ids)


def shifted(row: Row, by: int) -> Row:
    """Return a copy of a row whose branches have positions that are higher by some tokens."""
    trunk_stop = row.blocks[0].trunk_stop
    depths = [max(depth + by, 0) for depth in row.position_ids[trunk_stop:]]
    return row._replace(position_ids=[*row.position_ids[:trunk_stop], *depths])
