"""gem-llm's GuessTheNumber with rewards of turns. Install (Python 3.11): pip install gem-llm."""

import re

import gem
from training import train

from barl_trl import text_rollouts


class Guess:
    """For the tiny model: `text_rollouts` plays what `gem.make` returns as it is."""

    def __init__(self):
        self.env = gem.make("game:GuessTheNumber-v0-easy")

    def reset(self, seed):
        self.env.reset(seed=seed)  # it returns the rules, which a larger model should read

    def step(self, text):
        number = (re.findall(r"\d+", text) or ["0"])[-1]
        return self.env.step(f"\\boxed{{{number}}}")


if __name__ == "__main__":
    train(settings={"credit": "turns"}, rollout_func=text_rollouts(Guess, max_turns=3))
