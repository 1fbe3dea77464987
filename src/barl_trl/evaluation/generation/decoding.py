"""How tokens are drawn: temperature and cut-offs."""

from collections.abc import Mapping
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


NO_CUT_OFF = {"top_p": 1, "top_k": 0, "min_p": 0}
"""Cut-off -> the value with which transformers and vLLM switch it off."""


def choose_drawing(settings: Mapping[str, float | None]) -> Drawing:
    """Return how tokens are drawn with the values of [`Drawing`]'s fields; None is not set.

    Raises:
        ValueError: A setting is out of its range, or a cut-off is given with greedy decoding.
    """
    named = {name: value for name, value in settings.items() if value is not None}
    _refuse_out_of_range(named)
    kept = {name: value for name, value in named.items() if value != NO_CUT_OFF.get(name)}
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
