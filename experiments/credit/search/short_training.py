"""Short training runs on a CPU that differ in the credit alone.

One optimizer step for each batch of rollouts, with TRL's `dapo` loss: where rollouts are the
policy's own, the gradient is that of [`BARLTrainer`]. All else takes less time: rollouts that ended
are not generated on, and nothing is logged.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..arms import CreditArm
from ..batches import CreditTask, RolloutTokens, TokenizedProblem, completion_logps, rollout_batch


@dataclass(frozen=True)
class ShortTraining:
    """Settings of a run.

    Attributes:
        steps: Optimizer steps.
        prompts: Prompts of the batch of each step.
        group_size: Rollouts of each prompt.
        learning_rate: Learning rate of AdamW, which has no weight decay.
        warmup_steps: Steps until the learning rate is reached.
        max_grad_norm: Norm to which gradients are clipped.
        evaluate_every: Steps between two evaluations; the first is before the training, the last
            after it.
    """

    steps: int = 60
    prompts: int = 8
    group_size: int = 8
    learning_rate: float = 3e-4
    warmup_steps: int = 5
    max_grad_norm: float = 1.0
    evaluate_every: int = 20


def train(
    model: nn.Module,
    task: CreditTask,
    arm: CreditArm,
    problems: Iterator[TokenizedProblem],
    *,
    seed: int,
    settings: ShortTraining,
    evaluate: Callable[[nn.Module, int], dict[str, float]],
) -> list[dict[str, float]]:
    """Train a model, and evaluate it on the way.

    Arms of a seed see the same problems, and their first rollouts are the same.

    Args:
        model: The model, which is trained in place.
        task: What judges and scores its rollouts.
        arm: The credit that weighs the tokens.
        problems: Problems without end.
        seed: Seed of the rollouts.
        settings: Steps, batch sizes and learning rate.
        evaluate: Measures the model; it also gets the number of steps before.

    Returns:
        What `evaluate` measured, with the number of `step`s before and the mean `reward` of the
        rollouts since the last time (NaN at first).
    """
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    measured, rewards = [], []
    for step in range(settings.steps + 1):
        if step % settings.evaluate_every == 0 or step == settings.steps:
            reward = sum(rewards) / len(rewards) if rewards else torch.nan
            measured.append({"step": step, "reward": reward, **evaluate(model, step)})
            rewards = []
        if step == settings.steps:
            return measured
        batch = rollout_batch(
            model,
            task,
            list(islice(problems, settings.prompts)),
            group_size=settings.group_size,
            arms=[arm],
            generator=generator,
        )
        rewards.append(batch.outcomes.mean().item())
        for group in optimizer.param_groups:
            warmup_steps = max(settings.warmup_steps, 1)
            group["lr"] = settings.learning_rate * min(1, (step + 1) / warmup_steps)
        optimizer.zero_grad()
        add_gradient(model, batch, batch.token_weights(arm))
        nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
    raise AssertionError("unreachable.")


def add_gradient(
    model: nn.Module, batch: RolloutTokens, weights: Float[Tensor, "batch token"]
) -> None:
    """Backpropagate the loss, which is minus the weighted log-likelihood per token.

    The rollouts are fed in two halves, the short and the long ones, which saves padding.
    """
    order = sorted(range(len(weights)), key=lambda row: len(batch.completion_ids[row]))
    half = -(-len(order) // 2)
    for rows in filter(None, (order[:half], order[half:])):
        logps = completion_logps(model, batch, rows)
        weighted = logps * weights[rows, : logps.shape[1]].to(logps.device)
        (-weighted.sum() / batch.token_mask.sum()).backward()
