"""`ProgressRows` prints a row for each logged step, in place of transformers' dictionaries."""

import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

_COLUMNS = {
    "reward": ("  reward", "{:.3f}"),
    "barl/truth_mass": ("  truth mass", "{:.3f}"),
    "barl/turn_reward": ("  turn reward", "{:.3f}"),
    "completions/mean_length": ("  tokens", "{:.0f}"),
    "completions/clipped_ratio": ("  cut off", "{:.0%}"),
}
"""Metric -> the title of its column, and how it is written."""


class ProgressRows(TrainerCallback):
    """Print step, reward, truth mass or turn reward, tokens, cut-off rollouts, and the time left.

    It is one of the `callbacks` of a [`BARLTrainer`], which then prints no dictionaries and no bar.
    """

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        self._first, self._began, self._rows = state.global_step, time.perf_counter(), 0

    def on_log(self, args, state, control, logs=None, **kwargs):  # noqa: D102 (transformers')
        if not logs or not state.is_world_process_zero:
            return
        step, of = state.global_step, state.max_steps
        if "train_runtime" in logs:
            took = timedelta(seconds=round(logs["train_runtime"]))
            lines = [f"{step} steps in {took}" if step > self._first else "All was done before."]
        elif "loss" in logs:
            per_step = (time.perf_counter() - self._began) / max(step - self._first, 1)
            left = str(timedelta(seconds=round(per_step * (of - step))))
            lines = []
            if self._rows % 25 == 0:  # a header, with a column for each metric of this run
                self._columns = {metric: c for metric, c in _COLUMNS.items() if metric in logs}
                lines = [f"{'step':>11}{''.join(t for t, _ in self._columns.values())}{'left':>10}"]
            cells = [
                f"{'-' if logs.get(metric) is None else text.format(logs[metric]):>{len(title)}}"
                for metric, (title, text) in self._columns.items()
            ]
            lines += [f"{f'{step}/{of}':>11}{''.join(cells)}{left:>10}"]
            self._rows += 1
        else:
            lines = [
                f"{f'at {step}':>11}  {name.removeprefix('eval_')} {value:.4g}"
                for name, value in logs.items()
                if name.endswith(("reward", "accuracy", "mean_tokens")) and value is not None
            ]
        with suppress(OSError):  # nobody reads it any more: no reason to end a run
            print("\n".join(lines), end="\n" * bool(lines), flush=True)


def rows_alone(trainer: Any) -> None:
    """Let a trainer that has [`ProgressRows`] print nothing else of what it logs."""
    if any(isinstance(one, ProgressRows) for one in trainer.callback_handler.callbacks):
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
