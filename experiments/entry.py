"""What the commands of all experiments share: mistakes and interruptions end in one line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from barl_trl.commands.shell.console import mistakes_in_one_line
from barl_trl.commands.shell.interruption import raised


@contextmanager
def ended_in_one_line(prog: str) -> Iterator[None]:
    """Turn a user's mistake, Ctrl-C and SIGTERM into one line.

    Args:
        prog: The command, such as `"python -m experiments.credit"`.
    """
    try:
        with mistakes_in_one_line(prog, path_or_id="--data"), raised():
            yield
    except KeyboardInterrupt:
        sys.exit(f"{prog}: interrupted. What is done is kept.")
