"""TextArena's GuessTheNumber with a reward for every turn. Needs `pip install textarena`."""

import re

import textarena as ta
from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, number_rows
from barl_trl.trainer.text_rollouts import text_rollouts


class Guess:
    """The game as it is, in the form that `text_rollouts` plays."""

    def reset(self, seed):
        self.env, self.answer = ta.make("GuessTheNumber-v0-raw"), None
        self.env.reset(num_players=1, seed=seed)
        self.env.get_observation()  # the rules: a real model should read them

    def step(self, text):
        self.answer = (re.findall(r"\d+", text) or ["0"])[-1]  # a real model says [7]
        is_over, _ = self.env.step(f"[{self.answer}]")
        _, heard = self.env.get_observation()
        said = " ".join(message for sender, message, _ in heard if sender == ta.GAME_ID)
        won = self.env.close()[0][0] if is_over else 0.0
        return said, won if is_over else 0.1 * ("target" in said), is_over


if __name__ == "__main__":
    rows = [row | {"seed": n} for n, row in enumerate(number_rows(64, seed=0))]
    run = {"use_cpu": True, "bf16": False, "max_steps": 3, "logging_steps": 1, "log_beliefs": True}
    trainer = BARLTrainer(
        str(NUMBER_MODEL_DIR),
        args=BARLConfig("outputs/textarena-guess", credit="turns", max_completion_length=400, **run),
        train_dataset=Dataset.from_list(rows).select_columns(["prompt", "seed"]),
        rollout_func=text_rollouts(Guess, max_turns=5),
    )
    trainer.train()
