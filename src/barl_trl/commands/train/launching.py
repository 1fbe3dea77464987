"""`barl train --accelerate_config NAME`: the command under `accelerate launch`."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...trainer.config import option
from ..recipes import file_of
from ..shell.console import at_least_one
from ..shell.parsers import OneLineParser


@dataclass
class LaunchFields:
    """Options that say how many processes share a run, and how."""

    accelerate_config: str | None = option(
        None,
        "How processes share the work: a name that `barl recipes` lists, or a file that "
        "`accelerate config` made.",
    )
    num_processes: int | None = option(
        None, "Number of processes, one for each device (default: `accelerate_config`'s, else 1)."
    )


def launch_command(prog: str, argv: Sequence[str]) -> list[str] | None:
    """Return the `accelerate launch` command that `argv` asks for, or None if it asks for none.

    The options of [`LaunchFields`] go to accelerate, the others to the command `prog`.

    Raises:
        SystemExit: `num_processes` is no number of processes.
        ValueError: There is no such configuration, this command was launched already, or accelerate
            would start one process only.
    """
    parser = OneLineParser(prog=prog, add_help=False)
    parser.knows_all, parser.takes_recipe = False, True
    parser.add_argument("--accelerate_config")
    parser.add_argument("--num_processes", type=at_least_one)
    options, others = parser.parse_known_args(argv)
    launch_options = [name for name, value in vars(options).items() if value is not None]
    if not launch_options:
        return None
    if "RANK" in os.environ:
        raise ValueError(
            f"--{launch_options[0]} must be given where nothing is launched yet, got it under a "
            "launcher: give it to the launcher."
        )
    python = [sys.executable, "-P", "-m"]  # no module of the working directory shadows another
    launch = [*python, "accelerate.commands.launch"]
    if options.accelerate_config:
        path = file_of("accelerate_config", options.accelerate_config)
        launch += ["--config_file", str(path)]
    if options.num_processes:
        _refuse_one_process(options.num_processes, options.accelerate_config)
        launch += ["--num_processes", str(options.num_processes)]
    return [*launch, "--no_python", *python, "barl_trl.cli", *prog.split()[1:], *others]


def _refuse_one_process(num_processes: int, accelerate_config: str | None) -> None:
    """Refuse several processes on CPUs where no configuration asks for CPUs."""
    if num_processes == 1 or accelerate_config:
        return
    import torch  # imported late: they take seconds
    from accelerate.commands.config.config_args import default_config_file

    if not torch.accelerator.is_available() and not Path(default_config_file).is_file():
        raise ValueError(
            f"--num_processes must be 1 without a GPU, got {num_processes}: accelerate would start "
            "one process. Give --accelerate_config cpu/ddp, too."
        )
