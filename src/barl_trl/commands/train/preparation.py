"""What is checked and claimed before a run loads its model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...trainer.checkpoints.files import checkpoint_to_resume
from ...trainer.checkpoints.output_folder import (
    claimed,
    refuse_no_checkpoint,
    refuse_unmakeable,
    refuse_used,
)
from ...trainer.checkpoints.settings import changed_settings, refuse_inexact, settings_of
from ...trainer.config import BARLConfig
from ...trainer.hub.pushes import claim_repository


def refuse_early(args: BARLConfig) -> None:
    """Refuse an output folder in which a run cannot start.

    Raises:
        ValueError: It cannot be made, has an earlier run or lacks the checkpoint to resume from.
    """
    folder = Path(str(args.output_dir))
    refuse_unmakeable(folder)
    refuse_no_checkpoint(args.resume_from_checkpoint, folder)
    if not (args.resume_from_checkpoint or args.overwrite_output_dir):
        refuse_used(folder)


@contextmanager
def prepared(args: BARLConfig, *, adapter: str | None) -> Iterator[str | bool | None]:
    """Claim the Hub's repository, and the output folder, which is held until the context ends.

    Args:
        args: The settings.
        adapter: Type of the adapter that is trained. None: the model is.

    Yields:
        What `Trainer.train` resumes from, a complete checkpoint where `args.resume_from_checkpoint`
        asks for one.

    Raises:
        ValueError: There is no complete checkpoint, it does not fit the settings, or another run
            has the folder.
    """
    checkpoint = checkpoint_to_resume(args.resume_from_checkpoint, args)
    if checkpoint is not None:
        changed = changed_settings(checkpoint, settings_of(args, method="BARL", adapter=adapter))
        refuse_inexact(checkpoint, changed, is_allowed=args.allow_inexact_resume)
    if args.push_to_hub and args.process_index == 0:
        claim_repository(args)
    resume = checkpoint or args.resume_from_checkpoint
    with claimed(args, resume):
        yield resume
