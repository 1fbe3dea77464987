"""Self-checks: whether a model scores shared prefixes, and a cache, as it would without them."""

import logging
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import nn

from .forward import ForwardRequest, token_logps
from .kv_cache import GenerationCache
from .model_traits import causal_lm, largest_of_processes, shared_layout, why_not_shared_prefix
from .queries import Rollout
from .rows import reencoded_rows, shared_prefix_rows

logger = logging.getLogger(__name__)

_prefix_checks: WeakKeyDictionary[nn.Module, tuple[int, str | None]] = WeakKeyDictionary()
"""Of each model: the longest rollout checked so far, and why it is re-encoded, if it is."""

_cache_checks: WeakKeyDictionary[nn.Module, tuple[int, str | None]] = WeakKeyDictionary()
"""Of each model: the longest cached prefix checked so far, and why none is used, if so."""


def can_share_prefixes(
    model: nn.Module, rollouts: Sequence[Rollout], elicitation_ids: Sequence[int], max_tokens: int
) -> bool:
    """Check a model once, by its description and by its values; warn once if it is re-encoded.

    The check is repeated when rollouts outgrow the checked length by a power of two: an attention
    window that the description hides changes no value before the context exceeds it. In between it
    goes unnoticed; the windows of transformers' families are in their descriptions.
    """
    scored = (rollout for rollout in rollouts if rollout.answers)
    longest = max(scored, key=lambda rollout: rollout.state_positions[-1], default=None)
    length = largest_of_processes(model, longest.state_positions[-1] if longest else 0)
    checked, reason = _prefix_checks.get(model, (0, None))
    if reason is None and length.bit_length() > checked.bit_length():
        reason = why_not_shared_prefix(model) or _why_inexact(
            model, longest, elicitation_ids, max_tokens
        )
        if largest_of_processes(model, int(reason is not None)) and reason is None:
            reason = "another process found it inexact"
        _prefix_checks[model] = (length, reason)
        if reason is not None:
            name = type(causal_lm(model)).__name__
            logger.warning(f"{name} cannot share prefixes, every state is re-encoded: {reason}.")
    return reason is None


def cached_lengths(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    max_tokens: int,
    cache: GenerationCache | None,
) -> list[int]:
    """Return how many leading tokens of each rollout need not be fed; nothing if all must be.

    The cache is checked by values as packed rows are: generation must have computed what scoring
    would.
    """
    asked = [i for i, rollout in enumerate(rollouts) if rollout.answers]
    if cache is None or not asked:
        return []
    lengths = cache.lengths(rollouts)
    longest = max(asked, key=lengths.__getitem__)
    checked, reason = _cache_checks.get(model, (0, None))
    if reason is None and lengths[longest].bit_length() > checked.bit_length():
        its_cache = cache.select([longest, longest])
        reason = _why_inexact(model, rollouts[longest], elicitation_ids, max_tokens, its_cache)
        _cache_checks[model] = (lengths[longest], reason)
        if reason is not None:
            logger.warning(f"rollouts are fed once more, generation's cache is no help: {reason}.")
    return lengths if reason is None and any(lengths) else []


def _why_inexact(
    model: nn.Module,
    rollout: Rollout | None,
    elicitation_ids: Sequence[int],
    max_tokens: int,
    cache: GenerationCache | None = None,
) -> str | None:
    """Compare packed rows to re-encoding at a few states, and say how they differ, if they do.

    In a second packed row the deepest state's branch is garbled: no other state may notice. The
    mean difference of token log-probabilities is judged against the noise that padding makes. A
    cache holds the rollout twice.
    """
    probes = []
    if rollout is not None:
        states = rollout.state_positions
        few = sorted({1, states[0], states[len(states) // 2], states[-1]})
        probes = [Rollout(rollout.token_ids, few, rollout.answers[:2])] * 2
    plain = reencoded_rows(probes[:1], elicitation_ids)
    exact, padded = (
        token_logps(model, ForwardRequest(probes[:1], plain, "plain", max_tokens=tokens)).answers
        for tokens in (1, max_tokens)
    )
    num_cached = () if cache is None else cache.lengths(probes)
    packed = shared_prefix_rows(probes, elicitation_ids, num_cached=num_cached)
    packed[1:] = [row.garbled(probes[0].state_positions[-1]) for row in packed[1:]]
    request = ForwardRequest(probes, packed, shared_layout(model), max_tokens, cache=cache)
    try:
        shared = token_logps(model, request).answers
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a forward makes of rows it was not written for
        return f"its forward over packed rows raised {type(error).__name__}: {error}"
    if rollout is None:
        return None
    shared[1, -1] = exact[0, -1]
    noise, gap = (
        torch.where(logps == exact, 0, (logps - exact).abs()).sum((1, 2, 3)).max().item()
        / sum(len(row.scored) for row in plain)
        for logps in (padded, shared)
    )
    floor = 1e-3 if causal_lm(model).dtype in (torch.float32, torch.float64) else 1e-2
    tolerance = min(max(5 * noise, floor), 0.05)
    if gap <= tolerance:
        return None
    return f"packed rows are off by {gap:.2g} nats per token (tolerance {tolerance:.2g})"
