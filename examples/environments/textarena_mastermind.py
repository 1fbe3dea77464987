"""TextArena's Mastermind with the exact belief over its codes. Needs `pip install textarena`."""

import math
import re
from itertools import permutations

import textarena as ta
from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.synthetic.number import NUMBER_MODEL_DIR, number_rows
from barl_trl.trainer.text_rollouts import text_rollouts


class Mastermind:
    """The game as it is. It owns its task: the hypotheses, and what each reply rules out."""

    def reset(self, seed):
        self.env, self.answer, self.replies = ta.make("Mastermind-v0-raw"), None, []
        self.env.reset(num_players=1, seed=seed)
        self.hypotheses = ["".join(code) for code in permutations("123456", 4)]

    def step(self, text):
        # the tiny model knows numbers only: its digits, then the others
        self.answer = "".join(dict.fromkeys([*re.findall("[1-6]", text), *"123456"]))[:4]
        self.env.get_observation()  # the rules, or what was heard before
        is_over, _ = self.env.step(f"[{' '.join(self.answer)}]")
        _, heard = self.env.get_observation()
        said = " ".join(message for sender, message, _ in heard if sender == ta.GAME_ID)
        pegs = re.search(r"(\d) black peg\(s\), (\d) white", said)
        self.replies.append((self.answer, pegs and tuple(map(int, pegs.groups()))))
        return said, self.env.close()[0][0] if is_over else None, is_over

    def _observation_log_likelihoods(self, hypotheses, steps):
        return [
            [0.0 if heard in (None, pegs(code, guess)) else -math.inf for code in hypotheses]
            for guess, heard in self.replies
        ]
