"""How the command of an experiment ends: a user's mistake and Ctrl-C in one line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_in_one_line(prog: str) -> Iterator[None]:
    """Turn a user's mistake and Ctrl-C into one line.

    Args:
        prog: The command, such as `"python -m experiments.credit"`.
    """
    try:
        yield
    except (ValueError, OSError) as error:
        sys.exit(f"{prog}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{prog}: interrupted. What is done is kept.")
