"""A row on the console for each logged step."""

import time
from typing import Any

from transformers import TrainerCallback

_COLUMNS = {
    "reward": ("reward", 8, "{:.3f}"),
    "truth mass": ("barl/truth_mass", 12, "{:.3f}"),
    "tokens": ("completions/mean_length", 8, "{:.0f}"),
    "cut off": ("completions/clipped_ratio", 9, "{:.0%}"),
}
"""Columns between step and time left: the metric, the width, and how it is written."""


class ProgressRows(TrainerCallback):
    """Print a row for each step that is logged, and a line for each evaluation."""

    _rows = 0

    def on_train_begin(self, args, state, control, **kwargs):  # noqa: D102
        self._began = state.global_step, time.perf_counter()

    def on_log(self, args, state, control, logs: Any = None, **kwargs):  # noqa: D102
        if not logs or not state.is_world_process_zero:
            return
        if "loss" not in logs:
            shown = {k: v for k, v in logs.items() if k.startswith("eval_") and "accuracy" in k}
            if shown:
                print(f"step {state.global_step}: {shown}", flush=True)
            return
        step, of = state.global_step, state.max_steps
        first, began = self._began
        left = round((time.perf_counter() - began) / max(step - first, 1) * (of - step))
        cells = [
            f"{'-' if (value := logs.get(metric)) is None else text.format(value):>{size}}"
            for metric, size, text in _COLUMNS.values()
        ]
        if self._rows % 25 == 0:
            names = [f"{name:>{size}}" for name, (_, size, _) in _COLUMNS.items()]
            print(f"{'step':>11}{''.join(names)}{'left':>9}")
        self._rows += 1
        clock = f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
        print(f"{f'{step}/{of}':>11}{''.join(cells)}{clock:>9}", flush=True)
