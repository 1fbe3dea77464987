"""Runs on its own: two steps of agents whose turns vLLM generates, and a benchmark of episodes.

The model calls a tool, or plays in text.
"""

import json
import sys
from pathlib import Path

from datasets import Dataset

from barl_trl import text_rollouts
from barl_trl.rewards import accuracy_reward
from tests.trainer.playing import Keeping, agent_config, call, dialog, save_taught
from tests.trainer.test_agents import QUESTION, ROWS, look
from tests.trainer.test_text_rollouts import Higher
from tests.vllm import cpu  # noqa: F401 (what vLLM's CPU build needs)

DIALOG = dialog(QUESTION[0]["content"], call("look", key=1), look(1), r"So \boxed{12}")

IN_TEXT = [
    {"role": "user", "content": f"{QUESTION[0]['content']}\n\nGuess."},
    {"role": "assistant", "content": "3"},
    {"role": "user", "content": "higher"},
    {"role": "assistant", "content": "7"},
]


def main(folder: str, kind: str = "tools") -> None:
    # vLLM's attention on CPUs wants heads of at least 32
    size = {"hidden_size": 64, "num_attention_heads": 2, "steps": 150}
    tools, said = (None, IN_TEXT) if kind == "text" else ([look], DIALOG)
    save_taught(f"{folder}/model", [said], tools=tools, **size)
    fields = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 1024}
    args = agent_config(Path(folder) / "run", max_steps=2, max_tool_calling_iterations=2, **fields)
    args.per_device_train_batch_size = 8
    how = {"tools": tools, "benchmarks": {"mine": Dataset.from_list(ROWS)}}
    if kind == "text":
        how = {"rollout_func": text_rollouts(Higher)}
    trainer = Keeping(f"{folder}/model", accuracy_reward, args, Dataset.from_list(ROWS), **how)
    trainer.train()
    result = {"steps": [row for row in trainer.state.log_history if "loss" in row]}
    result["accuracy"] = trainer.evaluate()["eval_mine/accuracy"] if kind == "tools" else None
    result["turns"] = [*map(len, trainer.scored.turns)]
    result["answers"] = trainer.scored.answers
    (Path(folder) / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
