"""What a training run prints: transformers' bar in a terminal, and a row for each logged step."""

import sys
import textwrap
import time
from collections.abc import Mapping
from typing import Any

import transformers
from tqdm.auto import tqdm
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

_COLUMNS = {
    "reward": ("reward", 8, "{:.3f}"),
    "truth mass": ("barl/truth_mass", 11, "{:.3f}"),
    "tokens": ("completions/mean_length", 8, "{:.0f}"),
    "cut off": ("completions/clipped_ratio", 8, "{:.0%}"),
    "no answer": ("barl/no_answer", 10, "{:.0%}"),
    "grad norm": ("grad_norm", 10, "{:.2g}"),
    "s/step": ("step_time", 7, "{:.1f}"),
}
"""Columns of a row, between step and time left: the metric, the width, and how it is written."""
ROWS_PER_HEADER = 25


class _Bar(ProgressCallback):
    """transformers' bar, without the dictionaries of some 45 metrics that it writes."""

    def on_log(self, *args, **kwargs):
        pass


class _TrainingRows(TrainerCallback):
    """Print a row for each step that is logged, and a line for each evaluation."""

    _rows = 0

    def on_train_begin(self, args, state, control, **kwargs):
        self._began = state.global_step, time.perf_counter()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if not logs or not state.is_world_process_zero:
            return
        if "train_runtime" in logs:
            text = f"{state.global_step} steps in {_clock(logs['train_runtime'])}"
        elif "loss" in logs:
            text = self._row(args, state, logs)
        else:
            text = _evaluation_in_words(logs, state.global_step)
        if text:
            with tqdm.external_write_mode():
                print(text, flush=True)  # a pipe shows it at once, too

    def _row(self, args, state, logs: Mapping[str, Any]) -> str:
        step, of = state.global_step, state.max_steps
        first, began = self._began
        left = (time.perf_counter() - began) / max(step - first, 1) * (of - step)
        width = max(9, 1 + 2 * len(str(of)))
        cells = [
            f"{'-' if (value := logs.get(metric)) is None else text.format(value):>{size}}"
            for metric, size, text in _COLUMNS.values()
        ]
        row = f"{f'{step}/{of}':>{width}}{''.join(cells)}{_clock(left):>8}"
        self._rows += 1
        if self._rows % ROWS_PER_HEADER != 1 and not args.log_completions:
            return row
        names = [f"{name:>{size}}" for name, (_, size, _) in _COLUMNS.items()]
        return f"{'step':>{width}}{''.join(names)}{'left':>8}\n{row}"


def _evaluation_in_words(logs: Mapping[str, Any], step: int) -> str:
    """Return the rewards, accuracies and lengths of an evaluation as a text; "" without any."""
    shown = ("reward", "accuracy", "/mean_tokens")
    texts = [
        f"{name.removeprefix('eval_')} {value:.4g}"
        for name, value in logs.items()
        if name.startswith("eval_") and name.endswith(shown) and value is not None
    ]
    text = f"evaluation at step {step}: {', '.join(texts)}"
    return textwrap.fill(text, 79, subsequent_indent="  ") if texts else ""


def print_rows(trainer: Any) -> None:
    """Let a trainer print rows where transformers would print dictionaries; logs stay whole."""
    transformers.utils.logging.disable_progress_bar()  # the bar of the shards that are written
    trainer.remove_callback(PrinterCallback)
    trainer.remove_callback(ProgressCallback)
    if sys.stderr.isatty() and not trainer.args.disable_tqdm:
        trainer.add_callback(_Bar())
    trainer.add_callback(_TrainingRows())


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
