"""TextArena's Mastermind with the exact belief over its codes. Install: pip install textarena."""

import re
from itertools import permutations

import textarena as ta
from training import train

from barl_trl import text_rollouts


def log_likelihood(code, step):
    for guess, *pegs in re.findall(r"Submitted \[([\d ]+)\]\D+(\d) black\D+(\d) white", str(step)):
        black = sum(map(str.__eq__, code, guess.split()))
        if [*map(int, pegs)] != [black, len({*code} & {*guess}) - black]:
            return float("-inf")
    return 0.0


class Mastermind:
    """The game owns its task: hypotheses, truth, what replies rule out. It fills guesses up."""

    def reset(self, seed):
        self.env, self.answer = ta.make("Mastermind-v0-raw"), None
        self.env.reset(num_players=1, seed=seed)
        self.hypotheses = ["".join(code) for code in permutations("123456", 4)]
        self.solution = "".join(map(str, self.env.state.game_state["secret_code"]))

    def step(self, text):
        self.answer = "".join(dict.fromkeys(re.findall("[1-6]", text + "123456")))[:4]
        is_over, _ = self.env.step(f"[{' '.join(self.answer)}]")
        return self.env.get_observation()[1][-1][1], None, is_over

    def _observation_log_likelihoods(self, hypotheses, steps):
        return [[log_likelihood(code, step) for code in hypotheses] for step in steps]


if __name__ == "__main__":
    exact, play = {"credit": "bayes", "belief": "task"}, text_rollouts(Mastermind, max_turns=3)
    train(settings=exact, rollout_func=play, reward_funcs="accuracy_reward")
