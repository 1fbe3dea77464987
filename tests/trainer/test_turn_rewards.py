"""Rewards of turns, from whoever tells them to the weights of tokens."""

import math

import pytest

from barl_trl.rewards import accuracy_reward

from .. import reference
from ..reference import Rollout
from .playing import call, played
from .test_agents import QUESTION, agent, chatting, look

ROWS = [{"prompt": QUESTION, "seed": 3}] * 4


class Rewarding:
    """A game whose attribute has a reward for each call."""

    def reset(self, seed, **row):
        self.seed, self.turn_rewards = seed, []

    def look(self, key: int) -> str:
        """Look up a key.

        Args:
            key: The key.

        Returns:
            Its value.
        """
        self.turn_rewards.append(key / 10)
        return "even" if key % 2 == 0 else "odd"


def plays():
    return [
        [call("look", key=2), call("look", key=1), "Done."],
        [call("look", key=4), "I do not know"],
        ["At once"],
        [call("look", key=3) + "\n" + call("look", key=5), "Done."],
    ]


REWARDS = [[0.2, 0.1, 0.0], [0.4, 0.0], [0.0], [0.8, 0.0]]
"""Of the plays' turns; two calls of a turn are one step."""
STATES = [["", "even", "odd"], ["", "even"], [""], ["", "odd odd"]]


def weights_by_hand(trainer, rewards, outcomes, baseline="step", **options):
    """Of each token, from plain loops over the turns."""
    generated, step_ends = trainer.generated, trainer.scored.step_ends
    rollouts = [
        Rollout(0, [[0.0]] * (len(r) + 1), v, turn_rewards=tuple(r), states=tuple(states))
        for r, v, states in zip(rewards, outcomes, STATES, strict=True)
    ]
    values = reference.subtract_baseline(reference.turns(rollouts, **options), rollouts, baseline)
    return [
        [own * value[sum(end <= k for end in ends)] for k, own in enumerate(mask)]
        for mask, ends, value in zip(generated.masks, step_ends, values, strict=True)
    ]


def check_weights(output, expected):
    for row, want in zip(output["advantages"].tolist(), expected, strict=True):
        assert row[: len(want)] == pytest.approx(want, abs=1e-6)
        assert not any(row[len(want) :])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"credit_baseline": "state"},
        {"credit_baseline": "none", "credit_options": {"turn_gamma": 0.5}},
        {"credit_options": {"turn_return": "own"}},
    ],
    ids=str,
)
def test_an_environments_rewards_weigh_its_turns_without_truths_or_reward_functions(
    tmp_path, fields
):
    trainer = agent(
        tmp_path,
        rows=ROWS,
        reward_funcs=None,
        environment_factory=Rewarding,
        credit="turns",
        **fields,
    )
    output = played(trainer, ROWS, plays())
    options = fields.get("credit_options", {})
    baseline = fields.get("credit_baseline", "step")
    check_weights(output, weights_by_hand(trainer, REWARDS, [0.0] * 4, baseline, **options))
    # TRL logs what the rollouts earned
    assert trainer._rewards_per_func[:, 0].tolist() == pytest.approx([0.3, 0.4, 0.0, 0.8])
    logged = trainer._metrics["train"]
    assert logged["rewards/turn_rewards/mean"] == [pytest.approx(0.375)]
    assert logged["barl/turn_rewards_unusable"] == [0]
    assert logged["barl/turn_reward"] == [pytest.approx(1.5 / 4)]  # of four turns with calls
    assert logged["barl/turns_rewarded"] == [0.5]
    assert logged["barl/turn_return_share"] == [1.0]


def test_plain_rl_with_them_needs_neither_truths_nor_hypotheses(tmp_path):
    rows = [row | {"candidates": ["1", "2"]} for row in ROWS]
    fields = {"credit": "rloo", "hypotheses_column": "candidates", "reward_funcs": None}
    trainer = agent(tmp_path, rows=rows, tools=[look], turn_rewards=lambda **_: REWARDS, **fields)
    weights = played(trainer, rows, plays())["advantages"][:, 0]
    totals = [sum(row) for row in REWARDS]  # less the mean of the others
    assert weights.tolist() == pytest.approx([(4 * one - sum(totals)) / 3 for one in totals])
    assert "barl/unusable_lists" not in trainer._metrics["train"]
    assert "barl/no_hypothesis" not in trainer._said


def test_a_function_tells_them_too_and_the_outcome_is_apart(tmp_path):
    asked = {}

    def turn_rewards(completions, steps, seed, **columns):
        asked.update(columns, seed=seed, steps=steps)
        return [[len(step) / 10 for step in of_rollout] for of_rollout in steps]

    def outcome(completions, **kwargs):
        return [1.0, 0.0, 2.0, None]

    trainer = agent(
        tmp_path,
        rows=ROWS,
        reward_funcs=outcome,
        environment_factory=Rewarding,
        credit="turns",
        turn_rewards=turn_rewards,
        credit_baseline="none",
    )
    output = played(trainer, ROWS, plays())
    assert asked["seed"] == [3] * 4 and len(asked["environments"]) == 4
    sizes = [[len(step) for step in of_rollout] for of_rollout in asked["steps"]]
    assert sizes == [[2, 2, 1], [2, 1], [1], [3, 1]]
    rewards = [[0.2, 0.2, 0.1], [0.2, 0.1], [0.1], [0.3, 0.1]]
    expected = weights_by_hand(trainer, rewards, [1.0, 0.0, 2.0, 0.0], "none")
    expected[3] = [0.0] * len(expected[3])  # without an outcome it is not judged
    check_weights(output, expected)


def test_a_rollout_func_tells_them_and_process_rewards_are_for_the_steps_of_one_turn(tmp_path):
    chats = [["a" * 8 + "<|im_end|>"], ["b" * 5 + "<|im_end|>"]] * 2
    told = [[0.5, -0.25], [1.0, None], [0.0, 0.0], [0.0, 2.0]]
    trainer = agent(
        tmp_path,
        rows=ROWS,
        reward_funcs=None,
        rollout_func=chatting(chats, turn_rewards=told),
        credit="turns",
        credit_baseline="none",
        step_size=4,
    )
    trainer.model.train()
    output = trainer._generate_and_score_completions([dict(row) for row in ROWS])
    assert [len(ends) for ends in trainer.scored.step_ends] == [2] * 4
    for row, (first, second), ends in zip(
        output["advantages"].tolist(), told, trainer.scored.step_ends, strict=True
    ):
        second = second or 0.0
        want = [first + second] * ends[0] + [second] * (ends[1] - ends[0])
        assert row[: ends[1]] == pytest.approx(want)
    assert "turn_rewards" not in trainer._inputs[0]


def test_lists_that_cannot_be_used_are_refused_at_first_and_counted_later(tmp_path):
    class Broken(Rewarding):
        def look(self, key: int) -> str:
            """Look up a key.

            Args:
                key: The key.
            """
            self.turn_rewards = [math.inf] if key == 1 else [0.1] * 9 if key == 4 else [0.5]
            return "x"

    trainer = agent(
        tmp_path,
        rows=ROWS,
        reward_funcs=None,
        environment_factory=Broken,
        credit="turns",
        credit_baseline="none",
    )
    with pytest.raises(ValueError, match="turn_rewards"):
        played(trainer, ROWS, plays())
    trainer.state.global_step = 1
    output = played(trainer, ROWS, plays())
    assert trainer._metrics["train"]["barl/turn_rewards_unusable"] == [2]
    assert [row.any().item() for row in output["advantages"]] == [False, False, False, True]


class Asked(Rewarding):
    """Tells the rewards by its method, which is no tool."""

    def reset(self, seed, **row):
        super().reset(seed)
        self.earned, self.turn_rewards = self.turn_rewards, [9.0] * 9

    def look(self, key: int) -> str:
        """Look up a key.

        Args:
            key: The key.
        """
        self.earned.append(key / 10)
        return "x"

    def get_turn_rewards(self):
        return self.earned

    def get_reward(self):
        return 0.0


def test_a_method_tells_them_and_is_no_tool(tmp_path):
    fields = {"credit": "turns", "credit_baseline": "none", "reward_funcs": []}
    trainer = agent(tmp_path, rows=ROWS, environment_factory=Asked, **fields)
    lies = [[call("get_turn_rewards"), "Done."], *plays()[1:]]
    output = played(trainer, ROWS, lies)
    assert "get_turn_rewards" not in trainer._tokenizer.decode(trainer.generated.prompt_ids[0])
    assert [tool.__name__ for tool in trainer.tools] == ["look"]
    said = trainer.generated.completions[0][1]["content"]
    assert "not found" in said
    firsts = output["advantages"][:, 0].tolist()
    assert firsts == pytest.approx([0.0, 0.4, 0.0, 0.8])


# The task is the environment's


class Owner(Rewarding):
    """Draws its task from the seed of the row."""

    def reset(self, seed, **row):
        super().reset(seed)
        self.hypotheses, self.prior = ["7", "12", "30"], (1, 2, 1)
        self.solution = "12"

    def _observation_log_likelihoods(self, hypotheses, steps):
        return [[0.0 if h != "30" else -math.inf for h in hypotheses] for _ in steps]


@pytest.mark.parametrize("credit", ["bayes", "barl"])
def test_an_environment_owns_hypotheses_prior_and_truth(tmp_path, credit):
    trainer = agent(
        tmp_path,
        rows=ROWS,
        reward_funcs=accuracy_reward,
        environment_factory=Owner,
        credit=credit,
        belief="task",
    )
    says = [[call("look", key=2), r"\boxed{12}"], [r"\boxed{7}"]] * 2
    played(trainer, ROWS, says)
    assert trainer.scored.sets[0].answers == ("12", "7", "30")
    assert trainer.scored.evidence.log_prior[0].exp().tolist() == pytest.approx([1, 0.5, 0.5])
    assert trainer._rewards_per_func[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_a_truth_that_is_nowhere_is_an_error_at_once(tmp_path):
    trainer = agent(tmp_path, rows=ROWS, reward_funcs=[], environment_factory=Asked, credit="barl")
    with pytest.raises(ValueError, match="solution_column must"):
        played(trainer, ROWS, plays())


def test_hypotheses_that_are_nowhere_are_an_error_at_once(tmp_path):
    fields = {"credit": "bayes", "belief": "task"}
    game = type("Silent", (Rewarding,), {"get_reward": lambda self: 1.0})
    trainer = agent(tmp_path, rows=ROWS, reward_funcs=[], environment_factory=game, **fields)
    with pytest.raises(ValueError, match="must have hypotheses"):
        played(trainer, ROWS, plays())


def test_the_environments_of_a_prompt_must_own_one_task(tmp_path):
    class Drawn(Owner):
        number = 0

        def reset(self, seed, **row):
            super().reset(seed)
            Drawn.number += 1
            self.solution = str(Drawn.number)

    trainer = agent(
        tmp_path,
        rows=ROWS,
        reward_funcs=None,
        environment_factory=Drawn,
        credit="bayes",
        belief="task",
    )
    with pytest.raises(ValueError, match="solution"):
        played(trainer, ROWS, plays())
