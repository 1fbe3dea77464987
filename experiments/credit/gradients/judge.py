"""Arms judged by their gradients on the same batches of rollouts, which are kept in files."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..arms import CreditArm
from ..batches import CreditTask, TokenizedProblem, rollout_batch
from .monte_carlo import monte_carlo_weights
from .quality import effects, gradient_quality
from .sketches import Sketch, arm_gradients, batch_gradients

MONTE_CARLO = "monte carlo"
"""Name of the arm that knows the values of states."""
COMPARED = "grpo"
"""Name of the arm that all arms are compared with."""


@dataclass(frozen=True)
class Judgement:
    """Which rollouts are sampled, and which gradients are taken.

    Attributes:
        batches: Number of batches; errors come from their differences.
        prompts: Prompts of a batch.
        group_size: Rollouts of each prompt.
        continuations: Continuations of each state, for its Monte-Carlo value; 0: none.
        parameters: Regular expression of the parameters whose gradients are taken; None: all.
        seed: Seed of the samples.
    """

    batches: int = 16
    prompts: int = 8
    group_size: int = 8
    continuations: int = 4
    parameters: str | None = None
    seed: int = 0


def collect(
    model: nn.Module,
    task: CreditTask,
    problems: Iterator[TokenizedProblem],
    arms: Mapping[str, CreditArm],
    judgement: Judgement,
    folder: Path,
    *,
    about: Mapping[str, Any],
    advance: Callable[[], None],
) -> list[dict[str, Any]]:
    """Sample batches, and take the gradients of all arms on each.

    Each batch has a file in `folder`, and one that is there is kept: a run that was killed goes on.

    Args:
        model: The model that is judged; it is put into evaluation mode.
        task: What judges and scores its rollouts.
        problems: At least as many as all batches need.
        arms: The arms by name; [`COMPARED`] is among them.
        judgement: Which rollouts are sampled, and which gradients are taken.
        folder: Folder of the files.
        about: More settings for the folder, as JSON: they identify model, problems and task.
        advance: Called after each batch.

    Returns:
        For each batch its `gradients` by name, and the `correlation` of each arm's weights with the
        Monte-Carlo advantages, if there are any.

    Raises:
        ValueError: The folder has batches of other settings.
    """
    model.eval()
    sketch = Sketch(model, judgement.parameters)
    settings = {**asdict(judgement), "arms": {n: repr(arm) for n, arm in arms.items()}, **about}
    _keep_settings(folder, json.dumps(settings, indent=1))
    records = []
    for number in range(judgement.batches):
        path = folder / f"batch-{number}.pt"
        chosen = list(islice(problems, judgement.prompts))
        if not path.exists():
            generator = torch.Generator().manual_seed(judgement.seed * 10_000 + number)
            record = _batch(model, task, chosen, arms, judgement, sketch, generator)
            part = path.with_suffix(".part")
            torch.save(record, part)
            part.rename(path)
        records.append(torch.load(path))
        advance()
    return records


def _keep_settings(folder: Path, settings: str) -> None:
    """Write settings into a folder, or refuse one that has batches of others."""
    file = folder / "judgement.json"
    if file.exists() and file.read_text(encoding="utf-8") == settings:
        return
    if any(folder.glob("batch-*.pt")):
        raise ValueError(
            f"output_dir must be empty or of the same settings, got {folder}: it has batches of "
            "others. Name another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(settings, encoding="utf-8")


def _batch(
    model: nn.Module,
    task: CreditTask,
    problems: list[TokenizedProblem],
    arms: Mapping[str, CreditArm],
    judgement: Judgement,
    sketch: Sketch,
    generator: torch.Generator,
) -> dict[str, Any]:
    batch = rollout_batch(
        model,
        task,
        problems,
        group_size=judgement.group_size,
        arms=arms.values(),
        generator=generator,
    )
    record: dict[str, Any] = {
        "gradients": arm_gradients(model, sketch, batch, arms),
        "correlation": {},
        "reward": batch.outcomes.mean().item(),
    }
    if judgement.continuations:
        solutions = [p.solution for p in problems for _ in range(judgement.group_size)]
        advantages = monte_carlo_weights(
            model, task, batch, solutions, number=judgement.continuations, generator=generator
        )
        gradients = batch_gradients(model, sketch, batch, {f"arm/{MONTE_CARLO}": advantages})
        record["gradients"] |= gradients
        mask = batch.token_mask
        record["correlation"] = {
            name: _correlation(batch.token_weights(arm)[mask], advantages[mask])
            for name, arm in arms.items()
        }
    return record


def _correlation(a: Tensor, b: Tensor) -> float | None:
    """Return the correlation of two vectors; None where one of them does not vary."""
    correlation = torch.corrcoef(torch.stack([a, b]).double())[0, 1].item()
    return None if math.isnan(correlation) else correlation


def verdict(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare the arms.

    Args:
        batches: What [`collect`] returns.

    Returns:
        A row for each `arm`. These are pairs of a number and its error: `bias`, `quality` and
        `gain`, the fields of [`GradientQuality`]; `beyond_control`, the quality minus that of plain
        RL with steps of the arm's sizes; `answered`, `tokens` and `entropy`, the [`effects`] of a
        step as long as plain RL needs for a point of accuracy. `correlation` is the mean
        correlation of weights with Monte-Carlo advantages, None without any.
    """
    stacked = {
        name: torch.stack([batch["gradients"][name] for batch in batches])
        for name in batches[0]["gradients"]
    }
    reference, compared = stacked["reference"], stacked[f"arm/{COMPARED}"]
    others = {n.removeprefix("effect/"): g for n, g in stacked.items() if n.startswith("effect/")}
    rows = []
    for full, gradients in stacked.items():
        if not full.startswith("arm/"):
            continue
        name = full.removeprefix("arm/")
        control = stacked.get(f"control/{name}")
        estimates: dict[str, Any] = gradient_quality(gradients, reference, compared)._asdict()
        if control is not None:
            estimates["beyond_control"] = gradient_quality(gradients, reference, control).gain
        estimates |= effects(gradients, others, reference)
        of_batches = [batch["correlation"].get(name) for batch in batches]
        correlations = [c for c in of_batches if c is not None]
        rows.append(
            {
                "arm": name,
                **{key: list(estimate) for key, estimate in estimates.items()},
                "correlation": sum(correlations) / len(correlations) if correlations else None,
            }
        )
    return rows
