"""What a training run prints: a line that moves, and a row for each step that is logged."""

import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import transformers
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from .console import plain_console

COLUMNS = {
    "reward": ("reward", "8", "{:.3f}"),
    "truth mass": ("barl/truth_mass", "11", "{:.3f}"),
    "tokens": ("completions/mean_length", "8", "{:.0f}"),
    "cut off": ("completions/clipped_ratio", "8", "{:.0%}"),
    "no answer": ("barl/no_answer", "10", "{:.0%}"),
    "grad norm": ("grad_norm", "10", "{:.2g}"),
}
"""Columns of a row, between step and times: the metric, the width, and how it is written."""

ROWS_PER_HEADER = 25


def in_words(logs: Mapping[str, Any]) -> str:
    """Return the reward, the truth mass and the tokens of a log, as far as it has them."""
    texts = {
        "reward": "reward {:.2f}",
        "truth mass": "truth mass {:.2f}",
        "tokens": "{:.0f} tokens",
    }
    values = {text: logs.get(COLUMNS[name][0]) for name, text in texts.items()}
    return ", ".join(text.format(value) for text, value in values.items() if value is not None)


class TrainingLine(TrainerCallback):
    """Move a progress bar with the optimizer steps; it tells the values of the last log.

    Args:
        progress: What shows the bar.
        task: The bar.
        name: What stands before the values.
    """

    def __init__(self, progress: Progress, task: Any, name: str = ""):
        self.progress, self.task, self.name = progress, task, name

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102
        self.progress.update(self.task, total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102
        self.progress.update(self.task, completed=state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):  # noqa: D102
        if logs and "reward" in logs:
            self.progress.update(self.task, description=self.name + in_words(logs))


class TrainingRows(TrainerCallback):
    """Print a row for each step that is logged, and a line for each evaluation."""

    def __init__(self):
        self._rows = 0
        self._began = self._last = (0, 0.0)

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102
        self._began = self._last = state.global_step, time.perf_counter()

    def on_log(self, args, state, control, logs=None, **kwargs):  # noqa: D102
        if not logs or not state.is_world_process_zero:
            return
        if "train_runtime" in logs:
            text = f"{state.global_step} steps in {_clock(logs['train_runtime'])}"
        elif "loss" in logs:
            text = self._row(args, state, logs)
        else:
            text = evaluation_in_words(logs, state.global_step)
        if text:
            print(text, flush=True)  # a pipe shows it at once, too

    def _row(self, args, state, logs: Mapping[str, Any]) -> str:
        step, of = state.global_step, state.max_steps
        now = step, time.perf_counter()
        pace, mean = (_seconds_per_step(start, now) for start in (self._last, self._began))
        self._last = now
        width = max(9, 1 + 2 * len(str(of)))
        cells = [
            f"{'-' if (value := logs.get(metric)) is None else text.format(value):>{size}}"
            for metric, size, text in COLUMNS.values()
        ]
        times = f"{pace:7.1f}{_clock(mean * (of - step)):>8}"
        row = f"{f'{step}/{of}':>{width}}{''.join(cells)}{times}"
        self._rows += 1
        if self._rows % ROWS_PER_HEADER != 1 and not args.log_completions:
            return row
        names = [f"{name:>{size}}" for name, (_, size, _) in COLUMNS.items()]
        return f"{'step':>{width}}{''.join(names)}{'s/step':>7}{'left':>8}\n{row}"


def evaluation_in_words(logs: Mapping[str, Any], step: int) -> str:
    """Return the rewards, accuracies and lengths of an evaluation, if a log has any."""
    shown = ("reward", "accuracy", "/mean_tokens")
    texts = [
        f"{name.removeprefix('eval_')} {value:.4g}"
        for name, value in logs.items()
        if name.startswith("eval_") and name.endswith(shown) and value is not None
    ]
    text = f"evaluation at step {step}: {', '.join(texts)}"
    return textwrap.fill(text, 79, subsequent_indent="  ") if texts else ""


@contextmanager
def training_console(trainer: Any) -> Iterator[None]:
    """Print a training run in rows, below them in a terminal a line that moves.

    transformers would print dictionaries of some 45 metrics. What is logged stays as it is.
    """
    transformers.utils.logging.disable_progress_bar()  # of shards that are written
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    trainer.add_callback(TrainingRows())
    console = plain_console()
    is_shown = console.is_terminal and not console.is_dumb_terminal
    if not is_shown or trainer.args.disable_tqdm or not trainer.is_world_process_zero():
        yield
        return
    values = TextColumn("{task.description}", markup=False)
    columns = BarColumn(bar_width=14), MofNCompleteColumn(), values, TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        trainer.add_callback(TrainingLine(progress, progress.add_task("", total=None)))
        yield


def _seconds_per_step(start: tuple[int, float], end: tuple[int, float]) -> float:
    return (end[1] - start[1]) / max(end[0] - start[0], 1)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
