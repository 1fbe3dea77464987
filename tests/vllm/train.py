"""Runs on every process: five steps on vLLM's rollouts, in the last two without new weights."""

import json
import os
import sys
from pathlib import Path

from peft import LoraConfig
from transformers import TrainerCallback

from barl_trl import BARLTrainer
from barl_trl.trainer.evaluation import greedy
from tests.tiny import tiny_tokenizer
from tests.trainer.rollouts import PROBLEMS, config, trainer
from tests.vllm.cpu import send_weights_by_file

NUM_SYNCHRONISED = 3


class StopSynchronising(TrainerCallback):
    def __init__(self, barl_trainer: BARLTrainer):
        self.generation = barl_trainer.vllm_generation

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == NUM_SYNCHRONISED:
            self.generation.sync_weights = lambda: None


def main(folder: str, model: str, server: str = "", lora: str = "") -> None:
    if server:
        send_weights_by_file(f"{folder}/weights.safetensors")
    settings = {"max_steps": NUM_SYNCHRONISED + 2, "max_completion_length": 32}
    settings |= {"learning_rate": 0.05, "lr_scheduler_type": "constant", "use_vllm": True}
    settings |= {"vllm_mode": "server" if server else "colocate"}
    settings |= {"vllm_server_base_url": server or None}
    settings |= {"per_device_train_batch_size": 8 // int(os.environ.get("WORLD_SIZE", "1"))}
    args = config(Path(folder) / "run", **settings)
    adapter = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None
    barl_trainer = trainer(model, tiny_tokenizer(), args, rollout_func=None, peft_config=adapter)
    barl_trainer.add_callback(StopSynchronising(barl_trainer))
    prompt_ids = [barl_trainer.processing_class.encode(prompt) for prompt, _ in PROBLEMS]
    with greedy(barl_trainer):
        likeliest, _ = barl_trainer._generate_single_turn(prompt_ids, None, {}, 1)
    barl_trainer.train()
    if barl_trainer.accelerator.is_main_process:
        steps = [row for row in barl_trainer.state.log_history if "loss" in row]
        processes = barl_trainer.accelerator.num_processes
        kind = barl_trainer.accelerator.distributed_type
        result = {"steps": steps, "processes": processes, "distributed_type": kind}
        result["likeliest"] = likeliest
        (Path(folder) / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
