"""The explorer's steps weighed by the package, its trainings, its gradients' quality.

The explorer's rollouts become [`ScoredRollouts`], as the trainer's do after one scoring pass. They
are weighed by the same estimator, baseline and whitening over tokens.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.credit.token_weights import token_weights
from barl_trl.posterior import posterior

from ..tools import write_json
from .arms import ARMS, Arm
from .simulation import INITIAL_PARAMETERS, WORLDS, Rollouts, World, simulate

PROMPTS, GROUP_SIZE = 16, 8
"""Prompts of one update, and rollouts of each."""
EVALUATION_PROBLEMS = 2000
_LEARNING_RATE, _FIRST, _SECOND = 0.05, 0.9, 0.999  # Adam


def scored_rollouts(rollouts: Rollouts, arm: Arm) -> ScoredRollouts:
    """Return the rollouts as a scoring pass would.

    An answer has two tokens, a candidate of plausibility q and a certain one, so its log-likelihood
    is log q by sum, log(q) / 2 by mean and log((q + 1) / 2) by token mean. The hypothesis axis has
    all candidates; only the truth and the answers of the group's rollouts exist.
    """
    credit = arm.credit_in_use
    plausibility = torch.from_numpy(rollouts.guesses)
    groups, answers = torch.from_numpy(rollouts.groups), torch.from_numpy(rollouts.answers)
    is_cut_off = answers < 0
    state_mask = torch.from_numpy(rollouts.step_tokens > 0)
    state_mask = torch.nn.functional.pad(state_mask, (1, 0), value=True)
    width = {"rollouts": plausibility.shape[2], "truth": 1, "none": 0}[credit.hypotheses]

    in_group = torch.zeros(int(groups.max()) + 1, plausibility.shape[2], dtype=torch.bool)
    in_group[:, 0] = True
    in_group[groups[~is_cut_off], answers[~is_cut_off]] = True
    hypothesis_mask = in_group[groups, :width]
    answer_logps = {
        "sum": plausibility.log(),
        "mean": plausibility.log() / 2,
        "token_mean": ((plausibility + 1) / 2).log(),
    }[credit.answer_likelihood][..., :width]
    exists = state_mask[..., None] & hypothesis_mask[:, None]
    answer_logps = answer_logps.masked_fill(~exists, 0.0)
    belief = answer_logps
    if width:
        belief = posterior(
            answer_logps,
            beta=arm.consistency_beta,
            state_mask=state_mask,
            hypothesis_mask=hypothesis_mask,
        )
    return ScoredRollouts(
        outcomes=torch.from_numpy(rollouts.outcomes),
        is_judged=torch.ones_like(is_cut_off),
        is_cut_off=is_cut_off,
        groups=groups,
        state_mask=state_mask,
        answer_logps=answer_logps,
        hypothesis_mask=hypothesis_mask,
        belief=belief,
        members=[answer if 0 <= answer < width else None for answer in answers.tolist()],
    )


def step_weights(rollouts: Rollouts, arm: Arm) -> Float[Tensor, "batch step"]:
    """Return the weight that an arm gives to the tokens of each step; 0 in padding."""
    scored = scored_rollouts(rollouts, arm)
    sizes, lengths = torch.from_numpy(rollouts.step_tokens), torch.from_numpy(rollouts.num_tokens)
    ends = sizes.cumsum(dim=1)
    step_ends = [row[exists].tolist() for row, exists in zip(ends, scored.step_mask, strict=True)]
    places = torch.arange(int(lengths.max()))
    mask = places < lengths[:, None]
    weighed = token_weights(scored, arm.credit_in_use, arm.options, step_ends, mask)
    begins = (ends - sizes).clamp(max=len(places) - 1)
    return weighed.weights.gather(1, begins) * scored.step_mask


def gradient(rollouts: Rollouts, arm: Arm) -> Float[np.ndarray, " parameter"]:
    """Return the derivative of the weighted log-likelihood, per token."""
    weights = step_weights(rollouts, arm).numpy()
    return (weights[..., None] * rollouts.scores).sum(axis=(0, 1)) / rollouts.num_tokens.sum()


class BatchCosines(NamedTuple):
    """How the gradients of an arm's batches point, compared with the policy gradient."""

    bias: float
    """Cosine of the mean gradient of all batches with the policy gradient."""
    quality: list[float]
    """Cosine of each batch's gradient with it; all arms have the same batches."""


def batch_cosines(
    arm: Arm, world: World, *, batches: int = 100, reference_prompts: int = 10_000
) -> BatchCosines:
    """Compare the gradients of batches with RLOO's, the policy gradient, on many more rollouts.

    All are those of the policy before training.

    Args:
        arm: The arm.
        world: Distribution of the problems, and budgets.
        batches: Number of batches of [`PROMPTS`] times [`GROUP_SIZE`] rollouts.
        reference_prompts: Problems of the reference, 16 rollouts each.
    """
    rng, of_batches = np.random.default_rng([0, 0]), np.random.default_rng([0, 1])
    chunks = -(-reference_prompts // 400)  # so that memory stays small
    chunk = -(-reference_prompts // chunks)
    reference = np.zeros(len(INITIAL_PARAMETERS))
    for _ in range(chunks):
        reference += gradient(simulate(INITIAL_PARAMETERS, world, chunk, 16, rng), ARMS["rloo"])
    gradients = [
        gradient(simulate(INITIAL_PARAMETERS, world, PROMPTS, GROUP_SIZE, of_batches), arm)
        for _ in range(batches)
    ]
    bias = _cosine(np.mean(gradients, axis=0), reference)
    return BatchCosines(bias, [_cosine(of_batch, reference) for of_batch in gradients])


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Return the cosine of two vectors, or 0 if one of them is 0."""
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-15))


def train(arm: Arm, world: World, seed: int, *, steps: int = 80) -> dict[str, float]:
    """Train from [`INITIAL_PARAMETERS`] with Adam, and evaluate four times on the way.

    All arms of a seed train on the same problems, with the same luck in each step, and are
    evaluated on the same [`EVALUATION_PROBLEMS`] other problems. Seeds share neither.

    Returns:
        `mean_accuracy` over training, `accuracy` at the end, and `longer_accuracy` with the tries
        of evaluation.
    """
    rng, parameters = np.random.default_rng([seed, 0]), INITIAL_PARAMETERS.copy()
    first, second = np.zeros(len(parameters)), np.zeros(len(parameters))
    measured = []
    for step in range(1, steps + 1):
        slope = gradient(simulate(parameters, world, PROMPTS, GROUP_SIZE, rng), arm)
        first = _FIRST * first + (1 - _FIRST) * slope
        second = _SECOND * second + (1 - _SECOND) * slope**2
        spread = np.sqrt(second / (1 - _SECOND**step)) + 1e-8
        parameters = parameters + _LEARNING_RATE * first / (1 - _FIRST**step) / spread
        if step % max(1, steps // 4) == 0:
            measured.append(accuracy(parameters, world, seed, world.tries))
    return {
        "mean_accuracy": float(np.mean(measured)),
        "accuracy": measured[-1],
        "longer_accuracy": accuracy(parameters, world, seed, world.evaluation_tries),
    }


def accuracy(
    parameters: Float[np.ndarray, " parameter"], world: World, seed: int, tries: int
) -> float:
    """Return the share of right answers in one rollout of each of a seed's problems."""
    rng = np.random.default_rng([seed, 1])
    return float(
        simulate(parameters, world, EVALUATION_PROBLEMS, 1, rng, tries=tries).outcomes.mean()
    )


def run_into(path: Path, world: str, arm: str, seeds: int) -> None:
    """Train an arm with each seed, and write what it reached, and its gradients' quality."""
    quality = batch_cosines(ARMS[arm], WORLDS[world])
    runs = [train(ARMS[arm], WORLDS[world], seed) for seed in range(seeds)]
    cosines = {"bias": round(quality.bias, 4), "quality": [round(q, 4) for q in quality.quality]}
    write_json(path, {"world": world, "arm": arm} | cosines | {"runs": runs})
