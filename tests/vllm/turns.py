"""Runs on its own: a step on vLLM's rollouts of a base model that ends turns with another token."""

import json
import sys
from pathlib import Path

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward
from tests.base_model import save_base_model, search_messages
from tests.trainer.rollouts import config
from tests.vllm import cpu  # noqa: F401 (what vLLM's CPU build needs)


def main(folder: str) -> None:
    model = f"{folder}/model"
    save_base_model(model)
    vllm = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 256}
    args = config(Path(folder) / "run", max_completion_length=96, **vllm)
    trainer = BARLTrainer(model, accuracy_reward, args, search_messages())
    trainer.train()
    (Path(folder) / "result.json").write_text(json.dumps(trainer.state.log_history[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
