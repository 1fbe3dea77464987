"""Recipes: their parser, and `barl recipes`, which lists those that are shipped, or prints one."""

import argparse
import json
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from trl import TrlParser

from .cli import OneLineParser, unknown

_PACKAGE = Path(__file__).parents[1]
FOLDERS = {"config": _PACKAGE / "recipes", "accelerate_config": _PACKAGE / "accelerate_configs"}
"""Folder of the shipped files that an option names."""
_PROMPT_TEXTS = ("prompt_template", "system_prompt", "template", "elicitation")
_LINE_BREAK = re.compile(  # no command of TeX, such as \neq, and no \\n
    r"(?<!\\)\\n(?!(?:abla|atural|e|earrow|eg|eq|ewline|exists|geq|leq|oindent|onumber|ot|otin|u"
    r"|warrow)(?![A-Za-z]))"
)
_TITLES = {
    "config": "Recipes: barl train --config NAME --dataset_name PATH_OR_ID",
    "accelerate_config": "Launching: barl train --accelerate_config NAME",
}


def names(option: str) -> list[str]:
    """Return the names of shipped files that an option of [`FOLDERS`] takes."""
    folder = FOLDERS[option]
    return sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.yaml"))


def file_of(option: str, value: str) -> Path:
    """Return the file that the value of an option names: a file of the user's, or a shipped one.

    Raises:
        ValueError: There is no such file, and no shipped one of that name.
    """
    for path in (Path(value), FOLDERS[option] / f"{value}.yaml"):
        if path.is_file():
            return path
    nearest = get_close_matches(Path(value).stem, names(option), n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "`barl recipes` lists them."
    raise ValueError(f"--{option} must be a YAML file or a shipped name, got {value}: {hint}")


def model_of(name: str) -> str:
    """Return the folder of a shipped model's name; any other name as it is."""
    folder = _PACKAGE / "assets" / name
    return str(folder) if folder.is_dir() and not Path(name).exists() else name


class RecipeParser(OneLineParser, TrlParser):
    """TRL's parser of options and of a recipe (`--config`), which may be a shipped one's name."""

    def __init__(self, *kinds: Any, prog: str):
        self._types: dict[str, Any] = {}
        for kind in kinds:  # the parser changes those of the fields
            self._types |= get_type_hints(kind)
        super().__init__(kinds, prog=prog, usage=f"{prog} [--config RECIPE] [OPTIONS]")
        for action in self._actions:  # --an-option is taken, too, but need not be shown
            action.option_strings = [n for n in action.option_strings if "-" not in n.lstrip("-")]

    def parse_args_and_config(self, args: Any = None, **kwargs: Any) -> Any:
        """Find the recipe, and parse as TRL."""
        words: list[str] = []
        if args and not args[0].startswith("-"):
            self.error(f"a recipe must come after --config, got {args[0]}.")
        for word in args:
            words += word.split("=", 1) if word.startswith("--config=") else [word]
        if "--config" in words:
            place = words.index("--config") + 1
            if place == len(words) or words[place].startswith("--"):
                self.error("--config must be followed by a recipe, got nothing.")
            words[place] = str(file_of("config", words[place]))
            _refuse_twice(words[place])
        return super().parse_args_and_config(words, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        r"""Parse, also JSON, whose mistakes transformers would not name, and `\n` in prompts.

        Between single quotes, a shell and YAML leave `\n` as it is.
        """
        parsed, rest = super().parse_known_args(args, namespace)
        for name, value in vars(parsed).items():
            if name in _PROMPT_TEXTS and isinstance(value, str):
                setattr(parsed, name, _LINE_BREAK.sub("\n", value))
            is_json = name.endswith(("_kwargs", "_options", "_config"))
            if is_json and isinstance(value, str) and value.startswith("{"):
                try:
                    setattr(parsed, name, json.loads(value))
                except (RecursionError, ValueError) as error:
                    self.error(f"{name} must be JSON, got another text ({error}).")
        return parsed, rest

    def set_defaults_with_config(self, **config: Any) -> list[str]:
        """Refuse unknown names, and read values with their types, as if they were typed."""
        actions = {action.dest: action for action in self._actions}
        for name, value in config.items():
            if name not in actions:
                self.error(unknown(str(name), actions))
            kind = "None" if value is None else type(value).__name__
            if kind in ("None", "list", "dict") and kind not in str(self._types.get(name, kind)):
                self.error(f"{name} must not be {value!r:.80}, which is a {kind}, in the recipe.")
            are_several = isinstance(value, list) and actions[name].nargs == "+"
            if value is None or (isinstance(value, dict | list) and actions[name].type is str):
                continue
            try:
                texts = [*map(str, value if are_several else [value])]
                config[name] = self._get_values(actions[name], texts)
            except argparse.ArgumentError as error:
                self.error(f"{error} in the recipe")
        return super().set_defaults_with_config(**config)


def _refuse_twice(path: str) -> None:
    """Refuse what is no YAML, or has an option twice, of which YAML would take the last one."""
    try:
        root = yaml.compose(Path(path).read_text(encoding="utf-8"), yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} must be YAML, got another text: {error}") from None
    keys = [key.value for key, _ in root.value] if isinstance(root, yaml.MappingNode) else []
    if twice := {name for name in keys if keys.count(name) > 1}:
        raise ValueError(f"{path} must have each option once, got {', '.join(twice)} again.")


def refuse_broken(rules: dict[str, Any], *owners: Any) -> None:
    """Raise a ValueError of the first rule (`name must …` -> whether it holds) that is broken."""
    for rule in [rule for rule, holds in rules.items() if not holds]:
        name = rule.split(" ")[0].rstrip(",")
        value = next(vars(owner)[name] for owner in owners if name in vars(owner))
        raise ValueError(f"{rule}, got {value!r}.")


def run(argv: list[str]) -> None:
    """List the files, or print one."""
    text = "Lists the shipped recipes and accelerate configurations, or prints one."
    parser = OneLineParser(prog="barl recipes", description=text)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the one to print")
    options = parser.parse_args(argv)
    if options.name is not None:
        option = next((one for one in FOLDERS if options.name in names(one)), "config")
        sys.stdout.write(file_of(option, options.name).read_text(encoding="utf-8"))
        return
    for option, title in _TITLES.items():
        print(f"{title}\n")
        width = max(map(len, names(option))) + 2
        for name in names(option):
            text = (FOLDERS[option] / f"{name}.yaml").read_text(encoding="utf-8")
            sentence = re.match(r"(# .*\n)*?# .*\.$", text, re.MULTILINE)
            comment = re.sub(r"\n?# ", " ", sentence[0]).strip() if sentence else ""
            print(f"  {name:{width}}{comment}")
        print()
    print("barl recipes NAME > my.yaml: a copy to change.")
