"""The end of training between two steps, on all processes together."""

import os
from pathlib import Path

import psutil
from accelerate import Accelerator
from transformers import TrainerCallback


class StopTogether(TrainerCallback):
    """End training at the end of a step, once any process is asked to or has lost its launcher.

    Without it the processes of a launcher that was killed train on, unseen. Transformers'
    `enable_jit_checkpoint` also saves in the middle of a step, from which a run cannot go on
    exactly, and each process decides for itself.

    Args:
        accelerator: The trainer's.

    Attributes:
        is_saved: Whether a checkpoint is saved then. The same on all processes.
        has_stopped: Whether training was ended.
    """

    def __init__(self, accelerator: Accelerator):
        self.accelerator = accelerator
        self.is_saved = self.has_stopped = False
        self._launcher = os.getppid() if _is_launched() else None

    @property
    def has_lost_launcher(self) -> bool:
        """Whether what launched this process has ended."""
        return self._launcher is not None and os.getppid() != self._launcher

    def ask(self) -> None:
        """Ask for it, on this process."""
        self.accelerator.set_trigger()

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102
        if self.has_lost_launcher:
            self.ask()
        is_watched = self.is_saved or self._launcher is not None
        if is_watched and self.accelerator.check_trigger():
            self.has_stopped = control.should_training_stop = True
            control.should_save |= self.is_saved


def _is_launched() -> bool:
    """Whether a launcher waits for this process; a shell or a cluster's pod is none."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return True
    try:
        command = psutil.Process(os.getppid()).cmdline()
    except psutil.Error:
        return False
    names = {Path(word).name for word in command[:5]}
    return bool(names & {"accelerate", "accelerate.commands.launch", "accelerate-launch"})
