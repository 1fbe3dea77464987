"""What is checked and claimed before a run loads its model; `barl train` calls nothing else for it.

[`refuse_early`] needs neither TRL nor torch, so that a mistake is reported at once.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..barl_fields import BARLFields, method_settings
from ..checkpoints.output_folder import (
    claimed,
    refuse_no_checkpoint,
    refuse_unmakeable,
    refuse_used,
)
from .environment import refuse_missing_packages
from .settings import TRL_RULES, batch_settings, refuse_broken

if TYPE_CHECKING:
    from ..barl_config import BARLConfig


def refuse_early(method: str, barl_fields: BARLFields, settings: Any) -> None:
    """Refuse settings with which a run could not start on this machine.

    Args:
        method: The method, as [`make_trainer`] takes it.
        barl_fields: BARL's settings.
        settings: An object with BARL's and TRL's settings; its class has their defaults.

    Raises:
        ImportError: vLLM is needed and missing.
        ValueError: A rule is broken, batches do not divide, a package is missing, or the output
            folder cannot be made, has an earlier run or lacks the checkpoint to resume from.
    """
    refuse_broken(TRL_RULES, settings)
    batch_settings(vars(settings), num_processes=int(os.environ.get("WORLD_SIZE", 1)))
    refuse_missing_packages(settings)
    method_settings(method, barl_fields)
    if settings.output_dir is None:
        return
    refuse_unmakeable(Path(settings.output_dir))
    refuse_no_checkpoint(settings.resume_from_checkpoint, Path(settings.output_dir))
    if not (settings.resume_from_checkpoint or settings.overwrite_output_dir):
        refuse_used(Path(settings.output_dir))


@contextmanager
def prepared(
    method: str, args: "BARLConfig", *, adapter: str | None
) -> Iterator[tuple["BARLConfig", str | bool | None]]:
    """Claim the Hub's repository, and the output folder, which is held until the context ends.

    Args:
        method: The method, as [`make_trainer`] takes it.
        args: The settings.
        adapter: Type of the adapter that is trained. None: the model is.

    Yields:
        The settings with the method's own; and what `Trainer.train` resumes from, a complete
        checkpoint where `args.resume_from_checkpoint` asks for one.

    Raises:
        ImportError: vLLM is needed and missing.
        ValueError: A package is missing, the method contradicts the settings, there is no complete
            checkpoint or it does not fit the settings, or another run has the folder.
    """
    # imported late: they import torch and TRL
    from ..checkpoints.files import checkpoint_to_resume
    from ..checkpoints.settings import changed_settings, refuse_inexact, settings_of
    from ..hub.pushes import claim_repository

    refuse_missing_packages(args)
    args = method_settings(method, args)
    checkpoint = checkpoint_to_resume(args.resume_from_checkpoint, args)
    if checkpoint is not None:
        kind = "GRPO" if method.startswith("grpo") else "BARL"
        changed = changed_settings(checkpoint, settings_of(args, method=kind, adapter=adapter))
        refuse_inexact(checkpoint, changed, is_allowed=args.allow_inexact_resume)
    if args.push_to_hub and args.process_index == 0:
        claim_repository(args)
    resume = checkpoint or args.resume_from_checkpoint
    with claimed(args, resume):
        yield args, resume
