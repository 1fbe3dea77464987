"""The values with which a check compares: a rollout re-encoded, and the noise of one rounding."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..forward import ForwardRequest, token_logps
from ..queries import Answer, Rollout
from ..tree.rows import reencoded_rows
from .model_traits import causal_lm, table_positions

PROBE_TOKENS = 24
"""Number of last tokens of a rollout that are scored like an answer: enough values for a mean."""

MOST_NOISE = 2.0
"""Largest difference between two ways to score, in units of the noise. With SmolLM2 in bfloat16 the
values of right rows differ by 0.5 to 1.4 times the noise (100 rollouts). Keys and values differ by
up to 0.8 times in right caches, and by 7 to 8 times in caches of weights that were 2 % smaller (20
rollouts).
"""

NEGLIGIBLE = 1e-3
"""Difference in nats per token that is no fault: TF32 makes some, which no dtype tells."""


class Reference(NamedTuple):
    """Re-encoded values of a rollout, with which other ways to score it are compared.

    Args:
        probes: The part of the rollout that is looked at; none in a process that only joins in.
        logps: Log-probabilities of the tokens of the probe's answers, re-encoded, in nats.
        noise: Mean absolute change of these log-probabilities by one rounding of the embeddings.
    """

    probes: list[Rollout]
    logps: Float[Tensor, "S H L"]
    noise: float


def reference(
    model: nn.Module, rollout: Rollout | None, elicitation_ids: Sequence[int], max_tokens: int
) -> Reference:
    """Re-encode a rollout, and again with rounded embeddings.

    Args:
        model: The model.
        rollout: The rollout. With None the same forward passes run, in which other processes wait
            for this one.
        elicitation_ids: Token ids of the common elicitation.
        max_tokens: Most tokens of one forward pass.
    """
    probes = [_probe(model, rollout, elicitation_ids)] if rollout else []

    def logps(probes: list[Rollout]) -> Float[Tensor, "S H L"]:
        rows = reencoded_rows(probes, elicitation_ids)
        request = ForwardRequest(probes, rows, "plain", max_tokens, same_length=True)
        return token_logps(model, request).answers.flatten(0, 1)  # of one rollout or none

    exact = logps(probes)
    with embeddings_rounded(causal_lm(model)):
        noisy = logps(probes)
    return Reference(probes, exact, mean_difference(noisy, exact))


def why_too_far(what: str, gap: float, noise: float) -> str | None:
    """Say that values are further off, in nats, than rounding explains; None if they are not."""
    if gap <= max(MOST_NOISE * noise, NEGLIGIBLE):
        return None
    return f"{what} off by {gap:.2g} nats per token (one rounding makes {noise:.2g})"


def mean_difference(a: Float[Tensor, "*L"], b: Float[Tensor, "*L"]) -> float:
    """Return the mean absolute difference of the values that are not padding."""
    scored = (a != 0) | (b != 0)
    difference = torch.where(a == b, 0, (a - b).abs())  # both -inf are equal
    return (difference.sum() / scored.sum().clamp(min=1)).item()


@contextmanager
def embeddings_rounded(base: PreTrainedModel) -> Iterator[None]:
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


def _probe(model: nn.Module, rollout: Rollout, elicitation_ids: Sequence[int]) -> Rollout:
    """Return the rollout with few of its states and answers, and its own last tokens as an answer.

    The last tokens are as many as the model has positions for, perhaps none.
    """
    states = rollout.state_positions
    few = sorted({states[0], states[len(states) // 2], states[-1]})
    most = table_positions(model) or float("inf")
    room = int(min(PROBE_TOKENS, most - states[-1] - len(elicitation_ids)))
    last_tokens = [Answer(rollout.token_ids[-room:])] if room > 0 else []
    return Rollout(rollout.token_ids, few, [*rollout.answers[:2], *last_tokens])
