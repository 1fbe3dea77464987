"""What [`HubMixin`] adds to TRL's model card: an example, settings, data and results."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trl import GRPOConfig

from ...report.markdown import code, escape
from ..barl_config import BARLConfig
from ..barl_fields import barl_fields

_SETTINGS = (
    "step_size",
    "consistency_beta",
    "num_generations",
    "generation_batch_size",
    "max_completion_length",
    "temperature",
    "learning_rate",
    "beta",
    "loss_type",
    "num_iterations",
    "seed",
)
"""Settings that every card names. A card also names BARL's settings that are not the default."""

_RESULTS = ("reward", "rewards/", "completions/mean_length", "barl/")
_RESULTS += ("eval_reward", "eval_rewards/", "eval_accuracy")
"""Prefixes of the names of metrics that a card has."""
_NO_RESULTS = ("barl/scoring_", "barl/dropped/", "barl/check_", "barl/recording_")
"""Longer prefixes of the names of metrics that a card leaves out."""

_EXAMPLE = re.compile(r"## Quick start\n\n```python\n.*?\n```\n", re.DOTALL)
"""The example in TRL's template. Its question has nothing to do with the task, and it loads the
model `None` where there is no Hub id."""

_MEASURED_ON = (
    "Metrics that begin with `eval_` were measured on the evaluation data or the benchmarks, "
    "the others on the rollouts of training.\n\n"
)

_PLACE = "### Framework versions"  # a heading in TRL's template; sections are added before it


def card_settings(args: BARLConfig, *, is_barl: bool = True) -> dict[str, Any]:
    """Return the settings of a run that its card names.

    Args:
        args: The settings of the run.
        is_barl: Whether BARL's trainer trained; if not, BARL's settings are left out.
    """
    changed = [one.name for one in barl_fields() if getattr(args, one.name) != one.default]
    return {
        name: getattr(args, name)
        for name in dict.fromkeys([*_SETTINGS, *changed])
        if is_barl or name in GRPOConfig.__dataclass_fields__
    }


def card_results(log_history: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the last value of each metric that a card names."""
    return {
        name: value
        for entry in log_history
        for name, value in entry.items()
        if value is not None
        and (name.startswith(_RESULTS) or name.endswith("/accuracy"))
        and not name.startswith(_NO_RESULTS)
    }


def add_sections(
    card: str,
    *,
    model: str,
    reward: str,
    settings: Mapping[str, Any],
    data: Mapping[str, Any],
    results: Mapping[str, float],
    step: int,
) -> str:
    """Put tables of settings, data and results into a model card.

    Args:
        card: TRL's card.
        model: Name of the model that was trained.
        reward: Sum of the reward functions' names with their weights.
        settings: Setting name -> its value.
        data: Property of the data -> its value, such as the number of rows.
        results: Metric name -> its last value. Without results there is no table of results.
        step: Number of optimizer steps after which the results were logged.

    Returns:
        The card with the tables before its framework versions, or at its end without these.
    """
    # TRL writes this link if the model is a local folder
    card = card.replace("[None](https://huggingface.co/None)", code(model))
    sections = _table("Settings", {"model": model, "reward": reward, **settings}) + _table(
        "Data", data
    )
    if results:
        numbers = {name: f"{value:.4g}" for name, value in results.items()}
        sections += _table(f"Results, as last logged in {step} steps", numbers) + _MEASURED_ON
    before, place, after = card.partition(_PLACE)
    return f"{before.rstrip()}\n\n{sections}{place}{after}"


def quick_start(
    card: str, *, model: str, prompt: Any, max_new_tokens: int, eos_token_ids: Sequence[int]
) -> str:
    """Replace the card's example by one with a prompt of the training data.

    Args:
        card: TRL's card.
        model: The Hub id of the model, or its folder.
        prompt: A prompt of the training data: text, or messages.
        max_new_tokens: The longest completion in training, in tokens.
        eos_token_ids: Ids of the tokens that ended completions in training. If there are several,
            the example names them, because the base model of an adapter may not know them.

    Returns:
        The card with the new example.
    """
    ends = f", eos_token_id={[*eos_token_ids]}" if len(eos_token_ids) > 1 else ""
    code = f"""\
## Quick start

```python
from transformers import pipeline

prompt = {prompt!r}
generator = pipeline("text-generation", model={model!r}, device_map="auto")
output = generator(prompt, max_new_tokens={max_new_tokens}{ends}, return_full_text=False)[0]
print(output["generated_text"])
```
"""
    return _EXAMPLE.sub(lambda _: code, card)


def _table(title: str, rows: Mapping[str, Any]) -> str:
    lines = [f"### {title}", "", "| | |", "|---|---|"]
    for name, value in rows.items():
        text = value if isinstance(value, str) and value.isprintable() else repr(value)
        lines.append(f"| {escape(name)} | {code(text, in_table=True)} |")
    return "\n".join(lines) + "\n\n"
