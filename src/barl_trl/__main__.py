"""`python -m barl_trl`: the `barl` command."""

from .cli import main

main()
