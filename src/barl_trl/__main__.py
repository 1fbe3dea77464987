"""`python -m barl_trl`: the `barl` command."""

from .commands.cli import main

if __name__ == "__main__":
    main()
