"""`barl_trl.commands.cli`."""

from .commands.cli import main as main

if __name__ == "__main__":
    main()
