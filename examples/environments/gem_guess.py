"""A game of gem-llm as it is, with a reward for every turn. Needs `pip install gem-llm`."""

import gem
from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR
from barl_trl.trainer.text_rollouts import text_rollouts


def game():
    return gem.make("game:GuessTheNumber-v0-easy")  # `reset` takes the column seed, and has the rules


if __name__ == "__main__":
    prompt = [{"role": "user", "content": "Play this game."}]
    run = {"use_cpu": True, "bf16": False, "max_steps": 3, "logging_steps": 1, "log_beliefs": True}
    trainer = BARLTrainer(
        str(NUMBER_MODEL_DIR),
        args=BARLConfig("outputs/gem-guess", credit="turns", max_completion_length=600, **run),
        train_dataset=Dataset.from_list([{"prompt": prompt, "seed": n} for n in range(64)]),
        rollout_func=text_rollouts(game, max_turns=4),
    )
    trainer.train()
