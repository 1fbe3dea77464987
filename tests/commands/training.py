"""What tests of `barl train` share."""

import json

EVALUATION = ["--eval_strategy", "steps", "--eval_steps", "2", "--per_device_eval_batch_size", "4"]


def logs(folder):
    return json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]
