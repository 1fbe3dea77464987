"""Resuming a GRPO run exactly, also in the middle of a rollout batch."""

import json
from pathlib import Path
from typing import Any

import torch
from accelerate.logging import get_logger
from accelerate.utils import send_to_device
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints
from trl import GRPOConfig, GRPOTrainer

logger = get_logger(__name__)


class ExactResumeMixin(GRPOTrainer):
    """Let resumed runs reach the parameters of undisturbed ones.

    A checkpoint also holds what TRL forgets: each process's rollouts that are still to be trained
    on, the place within them, and metrics that are still to be logged. Epochs that lie behind the
    checkpoint have taken their orders from the sampler. Processes wait for each other before
    `trainer_state.json` is written: where it can be read, all else is there.

    What it relies on in TRL: `_prepare_inputs` alone takes rollouts from `_buffered_inputs`, by
    `_step`; `_save_rng_state` and `_load_rng_state` run on every process.
    """

    args: GRPOConfig
    _attributes_to_resume = ("_step", "_current_train_step_time")
    _epochs_trained = 0

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs):  # noqa: D102
        checkpoint = checkpoint_to_resume(resume_from_checkpoint, str(self.args.output_dir))
        if checkpoint is not None:
            self._epochs_trained = int(trainer_state(checkpoint)["epoch"])
            if not self._rollouts_file(checkpoint).exists():
                raise ValueError(
                    "resume_from_checkpoint must have been saved by BARLTrainer on "
                    f"{self.accelerator.num_processes} processes, got {checkpoint}: launch as many "
                    "as saved it."
                )
        return super().train(checkpoint, **kwargs)

    def _get_train_sampler(self, dataset=None):
        sampler = super()._get_train_sampler(dataset)
        for _ in range(self._epochs_trained):
            next(iter(sampler))  # draws the order of one epoch
        return sampler

    def _save_rng_state(self, output_dir):
        super()._save_rng_state(output_dir)
        generate_every = (self.args.steps_per_generation or 1) * self.num_iterations
        state = {
            "attributes": {name: getattr(self, name) for name in self._attributes_to_resume},
            "metrics": dict(self._metrics["train"]),
            "rollouts": self._buffered_inputs if self._step % generate_every else None,
        }
        torch.save(state, self._rollouts_file(output_dir))
        self.accelerator.wait_for_everyone()

    def _load_rng_state(self, checkpoint: str | None):
        if checkpoint is None:
            return
        super()._load_rng_state(checkpoint)
        state = torch.load(self._rollouts_file(checkpoint), map_location="cpu", weights_only=True)
        for name, value in state["attributes"].items():
            setattr(self, name, value)
        self._metrics["train"].update(state["metrics"])
        self._buffered_inputs = send_to_device(state["rollouts"], self.accelerator.device)

    def _rollouts_file(self, checkpoint: str) -> Path:
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        return Path(checkpoint) / f"rollouts_{rank}_of_{world}.pt"


def checkpoint_to_resume(value: str | bool | None, output_dir: str) -> str | None:
    """Return the checkpoint that `resume_from_checkpoint` means; recipes and options are texts.

    Raises:
        ValueError: It is incomplete, or there is none.
    """
    choice = str(value or False).lower()
    if choice == "false":
        return None
    if choice == "true":
        return last_complete_checkpoint(output_dir)
    trainer_state(str(value))
    return str(value)


def trainer_state(checkpoint: str) -> dict[str, Any]:
    """Read the state that is written when all else of a checkpoint is there.

    Raises:
        ValueError: It is missing or cut off.
    """
    file = Path(checkpoint) / TRAINER_STATE_NAME
    try:
        return json.loads(file.read_text())
    except (FileNotFoundError, json.JSONDecodeError) as error:
        raise ValueError(
            f"resume_from_checkpoint must be complete, got {checkpoint} whose {file.name} is "
            "missing or cut off: `true` takes the last complete one."
        ) from error


def last_complete_checkpoint(output_dir: str) -> str:
    """Find the newest complete checkpoint; a warning names incomplete ones that are newer.

    Raises:
        ValueError: There is none.
    """
    broken = []
    for checkpoint in reversed(sort_checkpoints(output_dir)):
        try:
            trainer_state(checkpoint)
        except ValueError:
            broken.append(checkpoint)
        else:
            if broken:
                logger.warning(f"incomplete: {', '.join(broken)}; resuming from {checkpoint}")
            return checkpoint
    raise ValueError(
        f"resume_from_checkpoint must find a complete checkpoint, got none in {output_dir}: leave "
        "it out to start anew."
    )
