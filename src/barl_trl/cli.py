"""The `barl` command. Each command's own options: `barl COMMAND --help`."""

import sys
import warnings
from importlib import import_module

COMMANDS = {
    "train": "train a model with BARL or one of its baselines, from a YAML recipe and options",
    "plan": "say what a recipe will do, before anything is loaded: batches, tokens, steps, memory",
    "data": "`barl data check FILE`: list rows that cannot be used or deserve a look",
    "evaluate": "accuracy and pass@k on benchmarks, with every response in a file",
    "analyze": "token efficiency, reflections, values of chains of thought, from response files",
    "reproduce": "examples and experiments: `barl reproduce triplets|tree|paper|credit`",
    "demo": "train a tiny model on search problems, on a CPU in minutes: table, curves and beliefs",
}

MODULES = {"data": "check_data"}
"""Commands whose module has another name."""


def main(argv: list[str] | None = None) -> None:
    """Run the `barl` command."""
    argv = sys.argv[1:] if argv is None else argv
    command = argv[0] if argv else "--help"
    if command in COMMANDS:
        # TRL 1.16 sets gradient_checkpointing, which transformers 5.19 renamed
        warnings.filterwarnings("ignore", ".*gradient_checkpointing.*is deprecated", FutureWarning)
        # the command's libraries are imported only now: `barl --help` answers at once
        import_module(f".commands.{MODULES.get(command, command)}", __package__).main(argv[1:])
        return
    usage = "usage: barl COMMAND [OPTIONS]\n\n" + "\n".join(
        f"  {name:10} {text}" for name, text in COMMANDS.items()
    )
    if command in ("-h", "--help"):
        print(usage)
    else:
        sys.exit(
            f"{usage}\n\nbarl: error: COMMAND must be one of {', '.join(COMMANDS)}, got "
            f"{command!r}."
        )


if __name__ == "__main__":
    main()
