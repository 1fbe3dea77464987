"""What the Hub gets: the model card with the settings and results of a run, and no secrets."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset
from huggingface_hub import ModelCard
from trl import GRPOConfig

_Arguments: Any = GRPOConfig if TYPE_CHECKING else object

_NAME = re.compile(r"secret|password|api_?key|^token$|(^|_)(hub|hf|auth|access)_token$", re.I)
_VALUE = re.compile(r"\b(hf_|sk-)[\w-]{8,}|(?<=://)[^\s/@]+:[^\s/@]+(?=@)")
_SETTINGS = ("step_size", "consistency_beta", "num_generations", "generation_batch_size")
_SETTINGS += ("max_completion_length", "temperature", "learning_rate", "beta", "loss_type", "seed")
_RESULT = re.compile(
    r"(eval_)?reward(s/.*)?|completions/mean_length|barl/(?!scor|che|rec).*|.*accuracy"
)


def redacted(value: Any) -> Any:
    """Return a value without secrets, which the name of a field tells, or the look of a text.

    Example:
        >>> redacted({"token": "x", "vllm": {"api_key": "k", "url": "http://me:pw@host"}})
        {'token': None, 'vllm': {'api_key': None, 'url': 'http://<SECRET>@host'}}
    """
    if isinstance(value, Mapping):
        is_secret = {name: isinstance(name, str) and _NAME.search(name) for name in value}
        return {n: None if is_secret[n] else redacted(value[n]) for n in value}
    if type(value) in (list, tuple):
        return type(value)(redacted(item) for item in value)
    return _VALUE.sub("<SECRET>", value) if isinstance(value, str) else value


def redacted_command(argv: Sequence[str]) -> str:
    r"""Return a command line without secrets, quoted for a shell.

    Example:
        >>> redacted_command(["barl", "--hub_token", "x", '--kwargs={"api_key": "k"}'])
        'barl --hub_token <SECRET> \'--kwargs={"api_key": null}\''
    """
    words: list[str] = []
    for word in argv:
        option, equals, value = word.partition("=") if word[:2] == "--" else ("", "", word)
        if value and _NAME.search((option or " ".join(words[-1:])).strip("-").replace("-", "_")):
            value = "<SECRET>"
        elif value[:1] in ("{", "["):
            try:
                value = json.dumps(redacted(json.loads(value)))
            except ValueError:  # no JSON: it may hold anything
                value = "<SECRET>"
        words.append(option + equals + value)
    return redacted(shlex.join(words).replace("'<SECRET>'", "<SECRET>"))


class RedactedArguments(_Arguments):
    """Training arguments that are pickled, printed and sent to trackers without their secrets."""

    def __getstate__(self) -> dict[str, Any]:  # transformers pickles and pushes them
        return redacted(vars(self))

    def __copy__(self):
        copied = object.__new__(type(self))
        copied.__dict__.update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]):
        copied = copy(self)
        copied.__dict__.update(deepcopy(vars(self), memo))
        return copied

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()})"

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as trackers get them."""
        return redacted(super().to_dict())


def complete_card(trainer: Any) -> None:
    """Add tables of settings, data and last results to the model card that TRL wrote.

    The settings are the usual ones, and BARL's if changed.
    """
    args: Any = trainer.args
    own = [one for one in fields(args) if one.name not in GRPOConfig.__dataclass_fields__]
    changed = [one.name for one in own if getattr(args, one.name) != one.default]
    rewards = zip(trainer.reward_weights.tolist(), trainer.reward_func_names, strict=True)
    model = Path(trainer.model.config._name_or_path)
    settings = {"model": model.name if model.exists() else str(model)}
    settings |= {"reward": " + ".join(f"{weight:g} {name}" for weight, name in rewards)}
    settings |= {name: getattr(args, name) for name in dict.fromkeys([*_SETTINGS, *changed])}
    sets = {"rows": trainer.train_dataset, "rows of evaluation": trainer.eval_dataset}
    sets |= {f"rows of benchmark {name}": rows for name, rows in trainer.benchmarks.items()}
    data = {"data set": trainer.train_dataset.info.dataset_name or "given as rows"}
    data |= {name: len(rows) for name, rows in sets.items() if isinstance(rows, Dataset)}
    logged = {name: value for row in trainer.state.log_history for name, value in row.items()}
    results = {
        name: f"{value:.4g}"
        for name, value in logged.items()
        if value is not None and _RESULT.fullmatch(name)
    }
    tables = _table("Settings", settings) + _table("Data", data)
    tables += _table(f"Results after {trainer.state.global_step} steps", results)
    path = Path(trainer.args.output_dir, "README.md")
    card = ModelCard.load(path)
    text = card.text.replace("[None](https://huggingface.co/None)", f"`{settings['model']}`")
    before, place, after = text.partition("### Framework versions")  # in TRL's template
    card.text = f"{before.rstrip()}\n\n{tables}{place}{after}"
    card.save(path)


def _table(title: str, rows: Mapping[str, Any]) -> str:
    pairs = [(name, " ".join(str(value).split())) for name, value in redacted(rows).items()]
    cells = [[cell.replace("|", r"\|").replace("`", "'") for cell in pair] for pair in pairs]
    lines = [f"| {name} | `{text}` |\n" for name, text in cells]
    return f"### {title}\n\n| | |\n|---|---|\n{''.join(lines)}\n" if rows else ""
