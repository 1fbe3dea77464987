"""Training of the explorer, and the quality of its gradients."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..arms import CreditArm
from .simulation import INITIAL_PARAMETERS, World, simulate
from .weights import gradient

PROMPTS, GROUP_SIZE = 16, 8
"""Prompts of one update, and rollouts of each."""
EVALUATION_PROBLEMS = 2000
_LEARNING_RATE, _FIRST, _SECOND = 0.05, 0.9, 0.999  # Adam


class BatchCosines(NamedTuple):
    """How the gradients of an arm's batches point, compared with the policy gradient."""

    bias: float
    """Cosine of the mean gradient of all batches with the policy gradient."""
    quality: float
    """Mean cosine of one batch's gradient with the policy gradient."""
    error: float
    """Standard error of the quality."""
    cosines: Float[np.ndarray, " sample"]
    """Cosine of each batch's gradient with the policy gradient; all arms have the same batches."""


def batch_cosines(
    arms: Mapping[str, CreditArm],
    world: World,
    parameters: Float[np.ndarray, " parameter"] = INITIAL_PARAMETERS,
    *,
    batches: int = 100,
    seed: int = 0,
    reference_prompts: int = 10_000,
) -> dict[str, BatchCosines]:
    """Compare the gradients of batches with RLOO's, the policy gradient, on many more rollouts.

    Args:
        arms: The arms by name.
        world: Distribution of the problems, and budgets.
        parameters: The policy's six parameters.
        batches: Number of batches of [`PROMPTS`] times [`GROUP_SIZE`] rollouts, at least 2.
        seed: Seed of all rollouts.
        reference_prompts: Problems of the reference, 16 rollouts each.
    """
    rng, of_batches = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    chunks = -(-reference_prompts // 400)  # so that memory stays small
    chunk = -(-reference_prompts // chunks)
    reference = np.zeros(len(parameters))
    for _ in range(chunks):
        reference += gradient(simulate(parameters, world, chunk, 16, rng), CreditArm("rloo"))
    gradients: dict[str, list[np.ndarray]] = {name: [] for name in arms}
    for _ in range(batches):
        rollouts = simulate(parameters, world, PROMPTS, GROUP_SIZE, of_batches)
        for name, arm in arms.items():
            gradients[name].append(gradient(rollouts, arm))
    results = {}
    for name, of_arm in gradients.items():
        cosines = np.array([_cosine(of_batch, reference) for of_batch in of_arm])
        error = float(cosines.std(ddof=1) / np.sqrt(batches))
        bias = _cosine(np.mean(of_arm, axis=0), reference)
        results[name] = BatchCosines(bias, float(cosines.mean()), error, cosines)
    return results


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Return the cosine of two vectors, or 0 if one of them is 0."""
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-15))


class CurvePoint(NamedTuple):
    """A point of a training curve."""

    step: int
    accuracy: float
    """Share of right answers with the tries of training."""
    longer_accuracy: float
    """Share of right answers with the tries of evaluation."""
    tokens: float
    """Mean tokens of the rollouts with the tries of evaluation."""
    parameters: tuple[float, ...]


def train(
    arm: CreditArm, world: World, seed: int, *, steps: int = 80, evaluate_every: int = 20
) -> list[CurvePoint]:
    """Train from [`INITIAL_PARAMETERS`] with Adam, and evaluate on the way.

    All arms of a seed train on the same problems, with the same luck in each step, and are
    evaluated on the same [`EVALUATION_PROBLEMS`] other problems. Seeds share neither.

    Args:
        arm: The credit that weighs the steps.
        world: Distribution of the problems, and budgets.
        seed: Seed of all randomness.
        steps: Number of updates, of [`PROMPTS`] times [`GROUP_SIZE`] rollouts each.
        evaluate_every: Updates between two evaluations. The last update is followed by one, too.
    """
    rng, parameters = np.random.default_rng([seed, 0]), INITIAL_PARAMETERS.copy()
    first, second = np.zeros(len(parameters)), np.zeros(len(parameters))
    curve = [evaluate(parameters, world, seed)]
    for step in range(1, steps + 1):
        slope = gradient(simulate(parameters, world, PROMPTS, GROUP_SIZE, rng), arm)
        first = _FIRST * first + (1 - _FIRST) * slope
        second = _SECOND * second + (1 - _SECOND) * slope**2
        spread = np.sqrt(second / (1 - _SECOND**step)) + 1e-8
        parameters = parameters + _LEARNING_RATE * first / (1 - _FIRST**step) / spread
        if step % evaluate_every == 0 or step == steps:
            curve.append(evaluate(parameters, world, seed, step=step))
    return curve


def evaluate(
    parameters: Float[np.ndarray, " parameter"], world: World, seed: int, *, step: int = 0
) -> CurvePoint:
    """Evaluate on one rollout of each of a seed's problems, with each budget of tries."""
    trained, longer = (
        simulate(
            parameters,
            world,
            EVALUATION_PROBLEMS,
            1,
            np.random.default_rng([seed, 1]),
            tries=tries,
        )
        for tries in (world.tries, world.evaluation_tries)
    )
    accuracies = float(trained.outcomes.mean()), float(longer.outcomes.mean())
    return CurvePoint(
        step, *accuracies, float(longer.num_tokens.mean()), tuple(parameters.tolist())
    )
