"""A checkpoint at the end of the step in which a run is asked to stop."""

from accelerate import Accelerator
from transformers import TrainerCallback


class SaveOnInterrupt(TrainerCallback):
    """Save a checkpoint and end training at the end of a step, once any process is asked to.

    Transformers' `enable_jit_checkpoint` also saves in the middle of a step, from which a run
    cannot go on exactly, and each process decides for itself.

    Args:
        accelerator: The trainer's.

    Attributes:
        has_stopped: Whether training was ended.
    """

    def __init__(self, accelerator: Accelerator):
        self.accelerator = accelerator
        self.has_stopped = False

    def ask(self) -> None:
        """Ask for it, on this process."""
        self.accelerator.set_trigger()

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102
        if self.accelerator.check_trigger():
            self.has_stopped = True
            control.should_save = control.should_training_stop = True
