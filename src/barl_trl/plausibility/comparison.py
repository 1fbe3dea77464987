"""One comparison with re-encoding, for the first batch: how may a model be fed?

In bfloat16 rounding changes log-probabilities. So the measure is the noise that one rounding of the
embeddings makes in the same model.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from .forward import token_logps
from .model_traits import (
    causal_lm,
    largest_of_processes,
    shared_layout,
    table_positions,
    why_not_shared_prefix,
    why_same_length,
)
from .queries import Answer, Rollout
from .rows import Feeding, build_rows

PROBE_TOKENS = 24
"""Number of last tokens of a rollout that are scored like an answer: enough values for a mean."""

MOST_NOISE = 2.0
"""Largest difference between two ways to score, in units of the noise. With SmolLM2 in bfloat16 the
values of right rows differ by 0.5 to 1.4 times the noise (100 rollouts).
"""

NEGLIGIBLE = 1e-3
"""Difference in nats per token that is no fault: TF32 makes some, which no dtype tells."""

Method = Literal["shared_prefix", "reencode"]

logger = logging.getLogger(__name__)

_chosen: WeakKeyDictionary[nn.Module, dict[Method, Feeding]] = WeakKeyDictionary()
"""How each model that was compared is fed."""


def choose_feeding(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    method: Method,
    max_tokens: int,
) -> Feeding:
    """Choose how to feed a model: trees if it may share prefixes, padded if padding does no harm.

    Its description decides first, then the comparison, on the longest rollout of the first batch.
    One warning says why a model is re-encoded, and one why its rows are not padded. With sharded
    parameters all processes run the same passes and choose alike.
    """
    chosen = _chosen.setdefault(model, {})
    if method in chosen:
        return chosen[method]
    refused = why_not_shared_prefix(model) if method == "shared_prefix" else None
    layout = shared_layout(model) if method == "shared_prefix" and not refused else "plain"
    fed = [rollout for rollout in rollouts if rollout.trunk_length]
    longest = max(fed, key=lambda rollout: rollout.trunk_length, default=None)
    if not largest_of_processes(model, int(longest is not None)):
        return Feeding(layout)  # nothing is fed
    probes = _probes(model, longest, elicitation_ids, max_tokens) if longest else []
    compared = _Comparison(model, probes, elicitation_ids, max_tokens)
    name = type(causal_lm(model)).__name__
    if layout != "plain":
        refused = compared.why_not(Feeding(layout, same_length=True))
    if refused:
        layout = "plain"
        logger.warning(f"{name} cannot share prefixes, every state is re-encoded: {refused}.")
    unpadded = None
    if layout != "packed":
        unpadded = why_same_length(model) or compared.why_not(Feeding(layout))
    if unpadded:
        logger.warning(
            f"{name} depends on padding, only rows of equal length are fed together: {unpadded}."
        )
    return chosen.setdefault(method, Feeding(layout, same_length=bool(unpadded)))


class _Comparison:
    """The values of rows that are fed as nothing but rows of equal length, and their noise."""

    def __init__(
        self, model: nn.Module, probes: list[Rollout], elicitation_ids: Sequence[int], most: int
    ):
        def logps(feeding: Feeding) -> tuple[Tensor, Tensor]:
            rows = build_rows(probes, elicitation_ids, feeding.layout, most)
            return token_logps(model, probes, rows, feeding, most)

        self._model, self._logps = model, logps
        one_by_one = Feeding("plain", same_length=True)
        self._exact = self._logps(one_by_one)
        with _embeddings_rounded(causal_lm(model)):
            noisy = self._logps(one_by_one)
        self._noise = [*map(_mean_difference, noisy, self._exact)]

    def why_not(self, feeding: Feeding) -> str | None:
        """Say how far values of another way are off, or that it fails; None if it is as good."""
        reason = None
        try:
            gaps = map(_mean_difference, self._logps(feeding), self._exact)
            for gap, noise in zip(gaps, self._noise, strict=True):
                if gap > max(MOST_NOISE * noise, NEGLIGIBLE):
                    reason = f"its values are off by {gap:.2g} nats per token"
                    reason += f" (one rounding makes {noise:.2g})"
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a forward makes of rows it was not written for
            reason = f"its forward over such rows raised {type(error).__name__}: {error}"
        if largest_of_processes(self._model, int(reason is not None)):
            return reason or "another process found it inexact"
        return None


def _mean_difference(a: Float[Tensor, "*L"], b: Float[Tensor, "*L"]) -> float:
    """Return the mean absolute difference of the values that are not padding."""
    scored = (a != 0) | (b != 0)
    difference = torch.where(a == b, 0, (a - b).abs())  # both -inf are equal
    return (difference.sum() / scored.sum().clamp(min=1)).item()


@contextmanager
def _embeddings_rounded(base: PreTrainedModel) -> Iterator[None]:
    """Change each number of the embeddings by one unit in the last place, up or down."""
    generator = torch.Generator().manual_seed(0)

    def change(_, args, output: Tensor) -> Tensor:
        kind = output.device.type
        is_cast = torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if is_cast else output.dtype
        signs = torch.randint(0, 2, output.shape, generator=generator).to(output) * 2 - 1
        return output * (1 + torch.finfo(dtype).eps * signs)

    embeddings: Any = base.get_input_embeddings()
    hook = embeddings.register_forward_hook(change)
    try:
        yield
    finally:
        hook.remove()


def _probes(
    model: nn.Module, rollout: Rollout, elicitation_ids: Sequence[int], max_tokens: int
) -> list[Rollout]:
    """Return what is scored of a rollout: a tree, and a row that is padded beside a longer one.

    The tree has few of its states and answers, and its last tokens as an answer: as many as the
    model has positions for, perhaps none. Half of the rollout's own tokens stand beside the whole.
    """
    states, ids = rollout.state_positions, rollout.token_ids
    few = sorted({states[0], states[len(states) // 2], states[-1]})
    most = table_positions(model) or float("inf")
    room = int(min(PROBE_TOKENS, most - states[-1] - len(elicitation_ids)))
    last_tokens = [Answer(ids[-room:])] if room > 0 else []
    whole = ids[: max(4, max_tokens // 2)]  # both fit into one pass
    half = whole[: (len(whole) + 1) // 2]
    return [
        Rollout(ids, few, [*rollout.answers[:2], *last_tokens]),
        Rollout(half, [1], [], score_from=1),
        Rollout(whole, [1], [], score_from=max(1, len(whole) - 1)),
    ]
