"""`JSON`: trains as its settings say, in a process that may be killed; tests also call `train`."""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import TrainerCallback, set_seed

from barl_trl import BARLTrainer
from tests.tiny import tiny_model, tiny_tokenizer
from tests.trainer.playing import agent_tokenizer, call, described, speaking
from tests.trainer.rollouts import config

# 2 prompts x 4 rollouts are trained on in 4 steps; of 5 problems, an epoch takes 4, in 8 steps
SETTINGS = {
    **{"per_device_train_batch_size": 2, "steps_per_generation": 4, "max_completion_length": 12},
    **{"save_strategy": "steps", "save_steps": 3, "max_steps": 10, "shuffle_dataset": True},
    "learning_rate": 1e-2,
}
PROMPT = [{"role": "user", "content": "Which number?"}]
ROWS = {
    "text": [{"prompt": f"{n}+{n}?", "solution": str(2 * n)} for n in range(5)],
    "agent": [{"prompt": PROMPT, "solution": str(n)} for n in range(5)],
}


def length(completions, **_):
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    return [float(len(text) % 5) for text in texts]


class Guess:
    """A game that draws from Python's generator, and tells what it drew."""

    def reset(self, solution, **_):
        self.secret, self.answer = int(solution), None
        return f" Hint: {random.random():.6f}"

    @described
    def guess(self, number: int) -> str:
        self.answer = number
        return f"{random.random():.6f}"


class KilledAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def made(
    folder, *, kind="text", is_lora=False, model_path=None, has_evaluation=False, **settings: Any
):
    is_agent = kind == "agent"
    tokenizer = agent_tokenizer() if is_agent else tiny_tokenizer()
    size = {"max_completion_length": 80, "step_size": 8} if is_agent else {}
    set_seed(1)
    model = tiny_model(tokenizer)
    model.config.max_position_embeddings = 2048
    trainer = BARLTrainer(
        model_path or model,
        length,
        config(folder, **SETTINGS | size | settings),
        Dataset.from_list(ROWS[kind]),
        Dataset.from_list(ROWS[kind][:2]) if has_evaluation else None,
        processing_class=tokenizer,
        peft_config=LoraConfig(r=2, target_modules=["q_proj"]) if is_lora else None,
        environment_factory=Guess if is_agent else None,
    )
    if is_agent:
        guesses = [[call("guess", number=n), f"It is \\boxed{{{n}}}." + "!" * n] for n in range(8)]
        speaking(trainer.model, tokenizer, guesses)
    return trainer


def train(folder, *, resume=None, callback=None, is_saved=False, **settings):
    trainer = made(folder, **settings)
    trainer.saves_and_stops.is_saved = is_saved
    if callback:
        trainer.add_callback(callback)
    trainer.train(resume)
    return trainer


def main(folder: str, killed_at: int = -1, **settings: Any) -> None:
    trainer = train(folder, callback=KilledAt(killed_at), **settings)
    whole = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if trainer.accelerator.is_main_process:
        torch.save(whole, Path(folder) / "parameters.pt")
    if trainer.args.push_to_hub:
        trainer.push_to_hub()
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
