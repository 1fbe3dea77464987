"""`StopTogether` ends training between two optimizer steps, on all processes together."""

import os
from pathlib import Path

import psutil
from accelerate import Accelerator
from transformers import TrainerCallback


class StopTogether(TrainerCallback):
    """End training at the end of a step, once any process is asked to or has lost its launcher.

    Without this callback the processes of a launcher that was killed would train on, unseen.
    Transformers' `enable_jit_checkpoint` is no substitute: it also saves in the middle of a step,
    from which a run cannot resume exactly, and each process decides for itself.

    Args:
        accelerator: The trainer's accelerator.

    Attributes:
        is_saved: Whether a checkpoint is saved when training ends. It must be equal on all
            processes.
        has_stopped: Whether this callback ended training.
    """

    def __init__(self, accelerator: Accelerator):
        self.accelerator = accelerator
        self.is_saved = self.has_stopped = False
        self._launcher = os.getppid() if _is_launched() else None

    @property
    def has_lost_launcher(self) -> bool:
        """Whether the process that launched this one has ended."""
        return self._launcher is not None and os.getppid() != self._launcher

    def ask(self) -> None:
        """Ask, on this process, that training ends after the current step."""
        self.accelerator.set_trigger()

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102
        if self.has_lost_launcher:
            self.ask()
        is_watched = self.is_saved or self._launcher is not None
        if is_watched and self.accelerator.check_trigger():
            self.has_stopped = control.should_training_stop = True
            control.should_save |= self.is_saved


def _is_launched() -> bool:
    """Return whether a launcher such as `accelerate launch` started this process.

    A shell or the pod of a cluster does not count as a launcher.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return True
    try:
        command = psutil.Process(os.getppid()).cmdline()
    except psutil.Error:
        return False
    names = {Path(word).name for word in command[:5]}
    return bool(names & {"accelerate", "accelerate.commands.launch", "accelerate-launch"})
