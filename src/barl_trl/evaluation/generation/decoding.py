"""How tokens are drawn: temperature, cut-offs, and the settings that model families advise."""

from collections.abc import Mapping
from difflib import get_close_matches
from math import inf
from typing import NamedTuple


class Drawing(NamedTuple):
    """How tokens are drawn from a model's distribution. A cut-off that is None is not applied."""

    temperature: float = 0.0
    """Number that divides the logits. 0 means greedy decoding."""
    top_p: float | None = None
    """Probability, in (0, 1]. The likeliest tokens that together reach it are kept."""
    top_k: int | None = None
    """Number of the likeliest tokens that are kept."""
    min_p: float | None = None
    """Share, in [0, 1]. Tokens with at least this share of the largest probability are kept."""

    @property
    def settings(self) -> dict[str, float]:
        """The temperature and the cut-offs that are not None, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def __str__(self) -> str:
        """Return the settings on one line."""
        if not self.temperature:
            return "greedy"
        return ", ".join(f"{name} {value:g}" for name, value in self.settings.items())


FAMILIES = {
    "r1": Drawing(0.6, top_p=0.95),
    "qwen3": Drawing(0.6, top_p=0.95, top_k=20),
    "qwen3_non_thinking": Drawing(0.7, top_p=0.8, top_k=20),
    "llama3": Drawing(0.6, top_p=0.9),
}
"""Model family -> the settings that its authors advise or ship.

They are taken from:

- `r1`: model cards of DeepSeek-R1-Distill ("Usage Recommendations"), and DeepSeek-R1's
  `generation_config.json`.
- `qwen3`, `qwen3_non_thinking`: model cards of Qwen3 ("Best Practices"), which also name min_p 0.
- `llama3`: `generation_config.json` of Llama-3.1-Instruct and Llama-3.2-Instruct.

Qwen2.5-Math has no entry: its own evaluation decodes greedily.
"""

_NO_CUT_OFF = {"top_p": 1, "top_k": 0, "min_p": 0}
"""Cut-off -> the value with which transformers and vLLM switch it off."""


def choose_drawing(family: str | None, settings: Mapping[str, float | None]) -> Drawing:
    """Return how tokens are drawn, by a family's name or by single settings.

    Args:
        family: A name of [`FAMILIES`], or None.
        settings: Values of [`Drawing`]'s fields, by name. A value that is None is not set.

    Raises:
        ValueError: There is no such family, both a family and settings are given, a setting is out
            of its range, or a cut-off is given with greedy decoding.
    """
    named = {name: value for name, value in settings.items() if value is not None}
    if family is not None:
        if family not in FAMILIES:
            near = get_close_matches(family, FAMILIES, n=1)
            hint = f"did you mean {near[0]}?" if near else "or give temperature, top_p and so on."
            raise ValueError(
                f"sampling must be one of {', '.join(FAMILIES)}, got {family!r}: {hint}"
            )
        for name, value in named.items():
            raise ValueError(
                f"{name} must be left out with sampling={family}, got {value:g}: it stands for "
                f"{FAMILIES[family]}. Give those that you want one by one."
            )
        return FAMILIES[family]
    _refuse_out_of_range(named)
    kept = {name: value for name, value in named.items() if value != _NO_CUT_OFF.get(name)}
    for name, value in kept.items():
        if name != "temperature" and not named.get("temperature"):
            raise ValueError(
                f"{name} must be left out with temperature 0, got {value:g}: greedy decoding takes "
                "the likeliest token. Set a temperature to sample."
            )
    return Drawing(**kept)  # pyright: ignore[reportArgumentType]


def _refuse_out_of_range(named: Mapping[str, float]) -> None:
    rules = {
        "temperature": ("be a number of 0 or more", lambda v: 0 <= v < inf, "0 is greedy."),
        "top_p": ("lie above 0 and not above 1", lambda v: 0 < v <= 1, "1 keeps all tokens."),
        "top_k": ("be 0 or more", lambda v: v >= 0, "0 keeps all tokens."),
        "min_p": ("lie between 0 and 1", lambda v: 0 <= v <= 1, "0 keeps all tokens."),
    }
    for name, value in named.items():
        rule, holds, hint = rules[name]
        if not holds(value):
            raise ValueError(f"{name} must {rule}, got {value}: {hint}")
