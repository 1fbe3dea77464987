"""`ExactResumeMixin` resumes a GRPO run exactly, even in the middle of a rollout batch."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from accelerate.logging import get_logger
from accelerate.utils import send_to_device
from safetensors import SafetensorError
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import rotate_checkpoints
from trl import GRPOTrainer

from ...report.json_files import read_json
from ..config import BARLConfig
from ..logging.printing import unfailing_output
from .files import (
    checkpoint_to_resume,
    missing_states,
    reopen,
    rollout_batch_steps,
    rollouts_name,
    write_end_marker,
)
from .moving_reference import load_reference, save_reference
from .output_folder import claimed, clear_if_wanted, one_writer
from .settings import (
    EXACT,
    changed_settings,
    data_settings,
    in_words,
    model_settings,
    refuse_inexact,
    settings_of,
    write_settings,
)
from .stop_together import StopTogether

logger = get_logger(__name__)


class ExactResumeMixin(GRPOTrainer):
    """Let a resumed run reach the parameters of a run that was never interrupted.

    A checkpoint also holds what TRL does not save: each process's rollouts that are still to be
    trained on, the position within them, the metrics that are still to be logged, and the moving
    reference of `sync_ref_model`. A resumed run draws the orders of the finished epochs from the
    sampler again, so that the later epochs have the orders of the first run.

    All processes finish their files before `trainer_state.json` is written. TRL writes the state
    of adaptive entropy after that, so an end marker ([`write_end_marker`]) comes last. Older
    checkpoints are deleted only after the end marker is written.

    A `train` that was interrupted, as by Ctrl-C in a notebook, leaves nothing to the next `train`:
    no rollouts, no position within them, no metrics.

    What it relies on in TRL: only `_prepare_inputs` takes rollouts from `_buffered_inputs`, at the
    position `_step`, and it generates rollouts if `_buffered_inputs` is None; `_save_rng_state` and
    `_load_rng_state` run on every process; `_load_rng_state` runs after `state.global_step` is
    loaded; `_save_checkpoint` writes into the folder of that step.
    """

    args: BARLConfig
    model: Any
    ref_model: Any
    _attributes_to_resume = ("_step", "_current_train_step_time")
    stop_together: StopTogether
    _epochs_trained = 0
    _own_folder: str | None = None
    _is_held: Callable[[], bool] = staticmethod(lambda: True)
    _again: ExitStack
    _is_inexact = False

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs):  # noqa: D102
        self._step, self._current_train_step_time, self._epochs_trained = 0, 0.0, 0
        self._buffered_inputs = None
        self._metrics["train"].clear()
        checkpoint = checkpoint_to_resume(resume_from_checkpoint, self.args)
        resume, folder = checkpoint or resume_from_checkpoint, self.args.output_dir
        is_own = self._own_folder == folder
        with claimed(self.args, resume, is_own=is_own) as self._is_held, ExitStack() as self._again:
            if checkpoint is not None:
                self._check_checkpoint(checkpoint)
            if not is_own:
                clear_if_wanted(self.args, resume)
            self._own_folder = folder
            self.stop_together.has_stopped = False
            with unfailing_output():
                output = super().train(checkpoint, **kwargs)
            self.hold_output_folder()  # for the model that is saved next
        if self.stop_together.has_stopped and self.stop_together.has_lost_launcher:
            raise SystemExit(
                f"training ended after step {self.state.global_step}: what launched this process "
                "has ended."
            )
        return output

    def _run_epoch(self, *args, **kwargs):
        # transformers takes a step before it asks whether the run is at its end
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    def hold_output_folder(self) -> None:
        """Hold the output folder, also where somebody has deleted it during training.

        Raises:
            ValueError: Another process has made a folder of that name, and writes into it.
        """
        if not self._is_held():
            folder = Path(str(self.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            self._is_held = self._again.enter_context(one_writer(folder))
            logger.warning(f"{folder} was deleted, and is made again: what was in it is lost")

    def _check_checkpoint(self, checkpoint: str) -> None:
        state = read_json(Path(checkpoint) / TRAINER_STATE_NAME)
        self._epochs_trained = int(state["epoch"])
        for lacking in missing_states(checkpoint, self.args):
            logger.warning(f"{checkpoint} has no {lacking}")
        changed = changed_settings(checkpoint, self._settings())
        if changed:
            logger.warning(f"{checkpoint} was trained with other settings: {in_words(changed)}")
        self.refuse_checkpoint(checkpoint)
        self._is_inexact = bool(changed.keys() & EXACT)

    def refuse_checkpoint(self, checkpoint: str) -> None:
        """Refuse a checkpoint from which this trainer cannot resume, or not exactly.

        Raises:
            ValueError: Settings, data or model are not those of the checkpoint.
        """
        changed = changed_settings(checkpoint, self._settings())
        refuse_inexact(checkpoint, changed, is_allowed=self.args.allow_inexact_resume)

    def _settings(self) -> dict[str, Any]:
        return settings_of(
            self.args,
            method=self._name,
            rewards=self.reward_func_names,
            **data_settings(self.train_dataset),
            **model_settings(self.accelerator.unwrap_model(self.model)),
        )

    def _get_train_sampler(self, dataset=None):
        sampler = super()._get_train_sampler(dataset)
        for _ in range(self._epochs_trained):
            next(iter(sampler))  # draws the order of one epoch
        return sampler

    def _save_checkpoint(self, model, trial):
        output_dir, limit = self._get_output_dir(trial), self.args.save_total_limit
        folder = Path(output_dir, f"checkpoint-{self.state.global_step}")
        self.hold_output_folder()
        if self.args.should_save:
            reopen(folder)  # an earlier run may have left a checkpoint of this step
        self.args.save_total_limit = None
        try:
            super()._save_checkpoint(model, trial)
        # on a full disk some of these errors do not say so
        except (OSError, RuntimeError, SafetensorError) as error:
            free = shutil.disk_usage(output_dir).free / 2**20
            error.add_note(f"{folder} is incomplete; {free:.0f} MiB are free in {output_dir}.")
            raise
        finally:
            self.args.save_total_limit = limit
        if self.args.should_save:
            write_end_marker(folder)
            best = self.state.best_model_checkpoint
            rotate_checkpoints(output_dir, limit, best, use_mtime=True)

    def _save_rng_state(self, output_dir):
        super()._save_rng_state(output_dir)
        is_between = self._step % rollout_batch_steps(self.args) == 0
        state = {
            "attributes": {name: getattr(self, name) for name in self._attributes_to_resume},
            "metrics": dict(self._metrics["train"]),
            "rollouts": None if is_between else self._buffered_inputs,
        }
        torch.save(state, self._rollouts_file(output_dir))
        if self.args.should_save:
            write_settings(output_dir, self._settings())
        if self.args.sync_ref_model:
            save_reference(self.ref_model, output_dir, self.accelerator)
        self.accelerator.wait_for_everyone()

    def _load_rng_state(self, checkpoint: str | None):
        if checkpoint is None:
            return
        super()._load_rng_state(checkpoint)
        if self.args.sync_ref_model:
            load_reference(self.ref_model, checkpoint, self.accelerator)
        file = self._rollouts_file(checkpoint)
        # without this file TRL's trainer saved the checkpoint, between two rollout batches
        if self._is_inexact or not file.exists():
            self._step = self.state.global_step * self.args.gradient_accumulation_steps
            return
        state = torch.load(file, map_location="cpu", weights_only=True)
        for name, value in state["attributes"].items():
            setattr(self, name, value)
        self._metrics["train"].update(state["metrics"])
        self._buffered_inputs = send_to_device(state["rollouts"], self.accelerator.device)

    def _rollouts_file(self, checkpoint: str) -> Path:
        accelerator = self.accelerator
        name = rollouts_name(accelerator.process_index, accelerator.num_processes)
        return Path(checkpoint) / name
