"""Part B: trainings of the explorer, which makes the demo's decisions with six parameters."""

from pathlib import Path
from typing import Any

from barl_trl.report.json_files import write_json

from ..arms import ARMS, file_name
from .simulation import WORLDS
from .training import batch_cosines, train

COMPARED_ARMS = (
    "grpo",
    "barl",
    "barl, sum",
    "barl, beta inf",
    "barl, own outcomes",
    "progress",
    "progress, log",
    "gae, lambda .9",
    "belief_critic",
    "belief_critic, no bootstrap",
    "belief_critic, unbiased",
    "information_gain",
    "delta_belief",
)
SEEDS = 20


def path_of(output_dir: Path, condition: str, arm: str) -> Path:
    """Return the file of the runs of an arm."""
    return output_dir / condition / f"{file_name(arm)}.json"


def run_into(path: Path, condition: str, arm: str, seeds: int) -> None:
    """Train an arm with each seed, and write the curves and its gradients' quality at the start."""
    quality = batch_cosines({arm: ARMS[arm]}, WORLDS[condition])[arm]
    runs = [train(ARMS[arm], WORLDS[condition], seed) for seed in range(seeds)]
    record: dict[str, Any] = {
        "arm": arm,
        "condition": condition,
        "bias": quality.bias,
        "quality": [quality.quality, quality.error],
        "runs": [
            {
                "seed": seed,
                "mean_accuracy": sum(e.accuracy for e in curve[1:]) / (len(curve) - 1),
                "accuracy": curve[-1].accuracy,
                "longer_accuracy": curve[-1].longer_accuracy,
                "curve": [[e.step, e.accuracy, e.longer_accuracy] for e in curve],
            }
            for seed, curve in enumerate(runs)
        ],
    }
    write_json(path, record)
