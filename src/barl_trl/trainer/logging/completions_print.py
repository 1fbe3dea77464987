"""Prints completions on the console, with answers, beliefs in the truth and values."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.padding import Padding

from ...rewards import calls_tool, completion_text
from .printing import accept_any_text

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 16
_LONGEST_ANSWER = 20
_LINES = 2
"""Most lines of a prompt or a completion. The folder `completions` has the whole texts."""


def print_completions(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    rewards: Mapping[str, Sequence[float]],
    rows: Sequence[Mapping[str, Any]],
    *,
    step: int,
    number: int | None,
) -> None:
    """Print the first completions, each group below its prompt.

    A completion has a bar for the value of each turn, or of each line or part of its text. One of
    several turns has a line for each message, which begins with the turn and its value, or with the
    tool that wrote it.

    Args:
        prompts: The prompt of each completion, a text or messages. The equal prompts of a group
            follow each other.
        completions: The completions, texts or messages.
        rewards: Name of a reward function -> the reward of each completion.
        rows: The row of each completion: `answer`, `belief` in the truth at its end, `hypotheses`
            with the truth first if the prompt `has_truth`, the number of `others` that are left
            out, and `step_values`. A row is empty where nothing was scored.
        step: The optimizer step.
        number: How many completions to print; None for all.
    """
    printed = [*zip(prompts, completions, rows, *rewards.values(), strict=True)][:number]
    if not printed:
        return
    accept_any_text()
    # brackets in a text are no markup of rich
    console = Console(markup=False, emoji=False, highlight=False)
    room = _LINES * (console.width - 6)
    step_values = [value for _, _, row, *_ in printed for value in row.get("step_values") or ()]
    step_values = [value for value in step_values if math.isfinite(value)]
    ends = (min(step_values), max(step_values)) if step_values else (0.0, 0.0)
    scale = f"  values from {ends[0]:.2f} to {ends[1]:.2f}" if step_values else ""
    console.print(f"completions at training step {step}{scale}", style="bold")

    def show(text: str, indent: int, style: str = "dim") -> None:
        console.print(Padding(text, (0, 0, 0, indent), expand=False), style=style)

    for (prompt, _), group in groupby(printed, key=lambda one: (one[0], _truth(one[2]))):
        members = [*group]
        show(shortened(completion_text(prompt), room), 2)
        if members[0][2].get("hypotheses"):
            show(shortened(_hypotheses(members[0][2]), room), 2, "none")
        for _, completion, row, *scores in members:
            cells = _cells(row, dict(zip(rewards, scores, strict=True)), ends)
            show("  ".join(cells).rstrip(), 4, "bold")
            has_turns = len(completion) > 1 or calls_tool(completion)
            if isinstance(completion, str) or not has_turns:
                show(shortened(completion_text(completion), room), 6)
                continue
            for text, style in _turns(completion, row.get("step_values") or ()):
                show(shortened(text, room), 6, style)


def _truth(row: Mapping[str, Any]) -> str | None:
    """Return the truth, by which problems with the same prompt differ; None without any."""
    hypotheses = row.get("hypotheses")
    return hypotheses[0] if hypotheses and row.get("has_truth", True) else None


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """Draw values as a line of at most 16 bars.

    Args:
        values: The values. If there are more than 16, each bar is the mean of neighbours.
        low: The value of the lowest bar.
        high: The value of the highest bar.
    """
    size = min(_MOST_BARS, len(values))
    cuts = [n * len(values) // size for n in range(size + 1)] if size else []
    means = [fmean(values[a:b]) for a, b in pairwise(cuts)]
    top = len(_BARS) - 1
    places = [(mean - low) / ((high - low) or 1.0) * top for mean in means]
    return "".join(_BARS[round(p)] if math.isfinite(p) else "?" for p in places)


def shortened(text: str, most: int) -> str:
    """Return a text in one line of printable characters.

    Args:
        text: The text.
        most: Most characters of the line; the middle of a longer text is left out.
    """
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if len(text) <= most:
        return text
    kept = most - 3
    return f"{text[: kept // 2]} … {text[-(kept - kept // 2) :]}"


def _hypotheses(row: Mapping[str, Any]) -> str:
    """Return the hypotheses of a row in words."""
    texts, others = row["hypotheses"], row.get("others")
    more = f" and {others} others" if others else ""
    if row.get("has_truth", True):
        return f"the truth: {texts[0]}; other answers: {', '.join(texts[1:]) or 'none'}{more}"
    return f"no truth is known; answers: {', '.join(texts)}{more}"


def _turns(messages: list[dict[str, Any]], values: Sequence[float]) -> Iterator[tuple[str, str]]:
    """Yield the text and the style of each message of a completion of several turns.

    Args:
        messages: The completion.
        values: Values of its steps, which are told if the turns are the steps.
    """
    is_told = len(values) == sum(message["role"] == "assistant" for message in messages)
    turn = 0
    for message in messages:
        text = completion_text([message])
        if message["role"] != "assistant":
            yield f"{message.get('name', 'observation')}: {text}", "dim"
            continue
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        parts = [text, *(f"{call['name']} {json.dumps(call['arguments'])}" for call in calls)]
        value = f" {values[turn]:+.2f}" if is_told else ""
        turn += 1
        yield f"turn {turn}{value}: {' '.join(filter(None, parts))}", "none"


def _cells(
    row: Mapping[str, Any], rewards: Mapping[str, float], ends: tuple[float, float]
) -> Iterator[str]:
    """Yield the cells of a completion's line."""
    answer = row.get("answer")
    text = "no answer" if answer is None else shortened(answer, _LONGEST_ANSWER)
    yield f"{text:{_LONGEST_ANSWER}}"
    for name, reward in rewards.items():
        yield f"{'reward' if len(rewards) == 1 else name} {reward:5.2f}"
    if row.get("belief") is not None:
        yield f"belief in the truth {row['belief']:.2f}"
    yield sparkline(row.get("step_values") or (), *ends)
