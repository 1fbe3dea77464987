"""`barl train` as users start it: through `accelerate launch`, on one process and several."""

import json

import pytest
import torch

from ..distributed.launching import launch
from .training import EVALUATION


def test_starts_through_accelerate_launch(tmp_path, recipe):
    launch("cpu.yaml", "barl_trl.cli", "train", "--config", recipe())
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_several_processes_share_the_batches_and_one_looks_at_the_rows(tmp_path, recipe):
    rows = [{"problem": f"{n}+1?", "answer": "?!" if n == 0 else str(n + 1)} for n in range(5)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    settings = recipe(
        dataset_name=str(path),
        prompts_per_rollout_batch=4,
        rollouts_per_optimizer_step=16,
        max_steps=1,
    )
    done = launch("cpu/ddp.yaml", "barl_trl.cli", "train", "--config", settings)
    assert (tmp_path / "out" / "model.safetensors").exists()
    args = torch.load(tmp_path / "out" / "training_args.bin", weights_only=False)
    # 16 rollouts are 2 processes x 4 rollouts x 2 micro-batches
    assert (args.generation_batch_size, args.gradient_accumulation_steps) == (16, 2)
    assert done.stderr.count("5 of 5 rows kept (kept, but look at: 1 unreadable)") == 1


@pytest.mark.slow
def test_processes_share_the_benchmarks(tmp_path, search_recipe):
    # 11 problems: batches of 4 on each of two processes, then 2 and 1
    settings = search_recipe(eval_on_start=True, max_steps=1, per_device_train_batch_size=2)
    options = ["--eval_benchmarks", f"search={tmp_path}/held_out.jsonl", *EVALUATION]

    def evaluated(config, *more):
        output = tmp_path / config
        command = ["train", "--config", settings, *options, *more, "--output_dir", str(output)]
        launch(config, "barl_trl.cli", *command)
        log = json.loads((output / "trainer_state.json").read_text())["log_history"][0]
        return [log["eval_accuracy"], log["eval_search/mean_tokens"]]

    expected = evaluated("cpu.yaml", "--per_device_train_batch_size", "4")
    for config in ("cpu/ddp.yaml", "cpu/zero3.yaml"):
        assert evaluated(config) == pytest.approx(expected)
