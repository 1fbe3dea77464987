"""Gradients that arms, and rewards of other quantities, have on a batch, as short sketches."""

import re
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..arms import CreditArm
from ..batches import RolloutTokens, completion_logps

SKETCH_SIZE = 32_768


class Sketch:
    """Count sketch of a model's gradient: products of sketches estimate products of gradients.

    Every parameter is added to a random place with a random sign; the error of a product is about
    `1 / sqrt(SKETCH_SIZE)` of the lengths. A gradient that is no longer is kept as it is.

    Args:
        model: The model; its parameters that do not match `pattern` are left out.
        pattern: Regular expression that is searched in names of parameters; None: all.

    Raises:
        ValueError: No parameter matches.
    """

    def __init__(self, model: nn.Module, pattern: str | None = None):
        named = dict(model.named_parameters())
        self.parameters = [p for n, p in named.items() if re.search(pattern or "", n)]
        if not self.parameters:
            raise ValueError(
                f"parameters must match the name of a parameter, got {pattern!r}: names look like "
                f"{next(iter(named))!r}."
            )
        size = sum(p.numel() for p in self.parameters)
        generator = torch.Generator().manual_seed(0)
        self.is_whole = size <= SKETCH_SIZE
        self.places = torch.randint(SKETCH_SIZE, (size,), generator=generator, dtype=torch.int32)
        self.signs = torch.randint(2, (size,), generator=generator, dtype=torch.int8) * 2 - 1

    def of(self, loss: Tensor) -> Float[Tensor, " place"]:
        """Return the sketch of the gradient of a scalar, and keep the scalar's graph."""
        gradients = torch.autograd.grad(loss, self.parameters, retain_graph=True)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).float().cpu()
        if self.is_whole:
            return flat
        return torch.zeros(SKETCH_SIZE).index_add_(0, self.places.long(), flat * self.signs)


def batch_gradients(
    model: nn.Module,
    sketch: Sketch,
    batch: RolloutTokens,
    weights: Mapping[str, Float[Tensor, "batch token"]],
) -> dict[str, Float[Tensor, " place"]]:
    """Return the sketch of the gradient of the weighted log-likelihood per token, for all weights.

    One forward pass serves all of them.
    """
    logps = completion_logps(model, batch, list(range(len(batch.prompt_ids))))
    tokens = batch.token_mask.sum()
    return {name: sketch.of((logps * w).sum() / tokens) for name, w in weights.items()}


@torch.no_grad()
def quantity_weights(
    model: nn.Module, batch: RolloutTokens
) -> dict[str, Float[Tensor, "batch token"]]:
    """Return the weights under which a batch estimates the gradients of other quantities.

    The quantities are the share of rollouts that answer, their mean tokens, and the entropy of the
    whole completion, in nats. The weights are RLOO's, with these as rewards.
    """
    logps = completion_logps(model, batch, list(range(len(batch.prompt_ids))))
    mask = batch.token_mask
    rewards = {
        "answered": batch.has_answer.to(logps),
        "tokens": mask.sum(dim=1).to(logps),
        "entropy": -(logps * mask).sum(dim=1),
    }
    return {name: leave_one_out(reward, batch) for name, reward in rewards.items()}


def leave_one_out(
    rewards: Float[Tensor, " batch"], batch: RolloutTokens
) -> Float[Tensor, "batch token"]:
    """Return RLOO's weights of the tokens for rewards of whole rollouts."""
    grouped = rewards.reshape(-1, batch.group_size)
    others = (grouped.sum(dim=1, keepdim=True) - grouped) / (batch.group_size - 1)
    return (grouped - others).reshape(-1, 1) * batch.token_mask


def rescaled_steps(
    weights: Float[Tensor, "batch token"],
    of_steps: Mapping[int, Float[Tensor, " place"]],
    plain: Float[Tensor, "batch token"],
    batch: RolloutTokens,
) -> Float[Tensor, " place"]:
    """Return the gradient of plain weights whose steps are as large as an arm's.

    This control of an arm shows what it gains by giving early or late steps more weight, without
    telling rollouts apart.

    Args:
        weights: The arm's weights.
        of_steps: For each place of a step, the gradient of the plain weights at that place alone.
        plain: The plain weights.
        batch: The rollouts.
    """
    control = torch.zeros_like(next(iter(of_steps.values())))
    for place, gradient in of_steps.items():
        at = batch.step_places == place
        size, plain_size = (w[at].square().mean().sqrt() for w in (weights, plain))
        if plain_size > 0:
            control += gradient * (size / plain_size).cpu()
    return control


def arm_gradients(
    model: nn.Module, sketch: Sketch, batch: RolloutTokens, arms: Mapping[str, CreditArm]
) -> dict[str, Float[Tensor, " place"]]:
    """Return all gradients that a comparison of arms needs, by name.

    They are the gradients of the arms (`arm/NAME`), of their controls (`control/NAME`), of the
    reference, which is RLOO (`reference`), and of other quantities (`effect/NAME`).
    """
    plain = leave_one_out(batch.outcomes, batch)
    places = batch.step_places.unique().tolist()
    weights = {f"arm/{name}": batch.token_weights(arm) for name, arm in arms.items()}
    others = {f"effect/{name}": w for name, w in quantity_weights(model, batch).items()}
    at_steps = {f"step/{n}": plain * (batch.step_places == n) for n in places if n >= 0}
    gradients = batch_gradients(model, sketch, batch, weights | others | at_steps)
    of_steps = {n: gradients.pop(f"step/{n}") for n in places if n >= 0}
    for name in arms:
        of_arm = weights[f"arm/{name}"]
        gradients[f"control/{name}"] = rescaled_steps(of_arm, of_steps, plain, batch)
    return gradients | {"reference": torch.stack(list(of_steps.values())).sum(dim=0)}
