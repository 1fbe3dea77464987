"""TextArena's GuessTheNumber with rewards of turns. Install: pip install textarena."""

import re

import textarena as ta
from training import train

from barl_trl import text_rollouts


class Guess:
    """The game as it is, in the form that `text_rollouts` plays."""

    def reset(self, seed):
        self.env, self.answer = ta.make("GuessTheNumber-v0-raw"), None
        self.env.reset(num_players=1, seed=seed)
        self.env.get_observation()  # the rules, which a larger model should read

    def step(self, text):
        self.answer = (re.findall(r"\d+", text) or ["0"])[-1]  # a larger model says [7]
        is_over, _ = self.env.step(f"[{self.answer}]")
        _, heard = self.env.get_observation()
        said = " ".join(message for sender, message, _ in heard if sender == ta.GAME_ID)
        reward = self.env.close()[0][0] if is_over else 0.1 * ("target" in said)
        return said, reward, is_over


if __name__ == "__main__":
    train(settings={"credit": "turns"}, rollout_func=text_rollouts(Guess, max_turns=3))
