"""What is checked and claimed before a run loads its model; `barl train` calls nothing else for it.

[`refuse_early`] needs neither TRL nor torch, so that a mistake is reported at once.
"""

import os
from typing import TYPE_CHECKING, Any

from ..barl_fields import BARLFields, method_settings
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
            folder has an earlier run.
    """
    refuse_broken(TRL_RULES, settings)
    batch_settings(vars(settings), num_processes=int(os.environ.get("WORLD_SIZE", 1)))
    refuse_missing_packages(settings)
    method_settings(method, barl_fields)
    if settings.output_dir is not None and not settings.resume_from_checkpoint:
        from ..resume import find_checkpoint

        find_checkpoint(settings, None)


def prepared(method: str, args: "BARLConfig") -> tuple["BARLConfig", str | bool | None]:
    """Return the settings with the method's own, and what `Trainer.train` resumes from.

    Args:
        method: The method, as [`make_trainer`] takes it.
        args: The settings.

    Raises:
        ImportError: vLLM is needed and missing.
        ValueError: A package is missing, the method contradicts the settings, there is no complete
            checkpoint, or the output folder has an earlier run.
    """
    from ..resume import find_checkpoint  # imported late: it imports torch and TRL

    refuse_missing_packages(args)
    args = method_settings(method, args)
    checkpoint = find_checkpoint(args, args.resume_from_checkpoint)
    return args, checkpoint or args.resume_from_checkpoint
