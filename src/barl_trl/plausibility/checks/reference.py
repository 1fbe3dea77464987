"""What the values of a rollout are compared with: re-encoding, and the noise of one rounding."""

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
"""Tokens of a rollout that are scored like an answer: enough values for a mean."""

MOST_NOISE = 2.0
"""How many times the noise two ways may differ. With SmolLM2 in bfloat16 the values of right rows
differ by 0.5 to 1.4 of it (100 rollouts); keys and values by up to 0.8 in right caches, and by 7 to
8 in those of weights that were 2 % smaller (20 rollouts).
"""

NEGLIGIBLE = 1e-3
"""Nats per token that are no fault: TF32, say, which no dtype tells."""


class Reference(NamedTuple):
    """What the values of a rollout are compared with.

    Args:
        probes: The part of the rollout that is looked at; none in a process that only joins in.
        logps: Log-probabilities of its answers' tokens, re-encoded.
        noise: Mean change of them by one rounding of the embeddings, in nats.
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
        rollout: What is scored. Without one the same forwards run, for those of other processes.
        elicitation_ids: The common elicitation.
        max_tokens: Tokens of one forward pass.
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
    """Say that values are further off than rounding explains, None if they are not, in nats."""
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

    A model may have no positions for them.
    """
    states = rollout.state_positions
    few = sorted({states[0], states[len(states) // 2], states[-1]})
    most = table_positions(model) or float("inf")
    room = int(min(PROBE_TOKENS, most - states[-1] - len(elicitation_ids)))
    own = [Answer(rollout.token_ids[-room:])] if room > 0 else []
    return Rollout(rollout.token_ids, few, [*rollout.answers[:2], *own])
