"""Rewards of turns, from whoever tells them to the weights of tokens."""

import math

import numpy as np
import pytest

from barl_trl.rewards import accuracy_reward

from .. import reference
from ..reference import Rollout
from .playing import call, described, played
from .rollouts import output_of
from .test_agents import QUESTION, agent, chatting, look

ROWS = [{"prompt": QUESTION, "seed": 3}] * 4


class Rewarding:
    """A game whose attribute has a reward for each call."""

    def reset(self, seed, **row):
        self.seed, self.turn_rewards = seed, []

    @described
    def look(self, key: int) -> str:
        self.turn_rewards.append(key / 10)
        return "even" if key % 2 == 0 else "odd"


def rewarded(tmp_path, environment_factory=Rewarding, **fields):
    fields = {"reward_funcs": None, "credit": "turns"} | fields
    return agent(tmp_path, rows=ROWS, environment_factory=environment_factory, **fields)


PLAYS = [
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
    ("baseline", "options"),
    [("step", {}), ("state", {}), ("none", {"turn_gamma": 0.5}), ("step", {"turn_return": "own"})],
)
def test_an_environments_rewards_alone_weigh_its_turns(tmp_path, baseline, options):
    trainer = rewarded(tmp_path, credit_baseline=baseline, credit_options=options)
    output = played(trainer, ROWS, PLAYS)
    check_weights(output, weights_by_hand(trainer, REWARDS, [0.0] * 4, baseline, **options))
    # TRL logs what the rollouts earned
    assert trainer._rewards_per_func[:, 0].tolist() == pytest.approx([0.3, 0.4, 0.0, 0.8])
    logged = {name: found for name, [found] in trainer._metrics["train"].items()}
    assert logged["rewards/turn_rewards/mean"] == pytest.approx(0.375)
    assert logged["barl/turn_rewards_unusable"] == 0
    assert logged["barl/turn_reward"] == pytest.approx(1.5 / 4)  # of four turns with calls
    assert (logged["barl/turns_rewarded"], logged["barl/turn_return_share"]) == (0.5, 1.0)


def test_a_call_that_fails_before_the_environment_hears_of_it_earns_nothing(tmp_path):
    trainer = rewarded(tmp_path, credit_options={"turn_return": "own"}, credit_baseline="none")
    failing = call("look", page=9)  # it has no such argument
    both = failing + "\n" + call("look", key=5)
    played(trainer, ROWS, [[failing, call("look", key=1), "Done."], [both, "Done."], *PLAYS[2:]])
    told = [[0.0, 0.1, 0.0], [0.5, 0.0], [0.0], [0.8, 0.0]]
    found = [[0.0 if math.isnan(r) else r for r in row] for row in trainer.generated.turn_rewards]
    assert found == [pytest.approx(row) for row in told]


def test_plain_rl_with_them_needs_neither_truths_nor_hypotheses(tmp_path):
    rows = [row | {"candidates": ["1", "2"]} for row in ROWS]
    fields = {"credit": "rloo", "hypotheses_column": "candidates", "reward_funcs": None}
    trainer = agent(tmp_path, rows=rows, tools=[look], turn_rewards=lambda **_: REWARDS, **fields)
    weights = played(trainer, rows, PLAYS)["advantages"][:, 0]
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

    given = {"reward_funcs": outcome, "turn_rewards": turn_rewards, "credit_baseline": "none"}
    trainer = rewarded(tmp_path, **given)
    output = played(trainer, ROWS, PLAYS)
    assert asked["seed"] == [3] * 4 and len(asked["environments"]) == 4
    sizes = [[len(step) for step in of_rollout] for of_rollout in asked["steps"]]
    assert sizes == [[2, 2, 1], [2, 1], [1], [3, 1]]
    rewards = [[size / 10 for size in of_rollout] for of_rollout in sizes]
    expected = weights_by_hand(trainer, rewards, [1.0, 0.0, 2.0, 0.0], "none")
    expected[3] = [0.0] * len(expected[3])  # without an outcome it is not judged
    check_weights(output, expected)


def test_a_rollout_func_tells_them_and_process_rewards_are_for_the_steps_of_one_turn(tmp_path):
    chats = [["a" * 8 + "<|im_end|>"], ["b" * 5 + "<|im_end|>"]] * 2
    told = [[0.5, -0.25], [1.0, None], [0.0, 0.0], [0.0, 2.0]]
    given = {"rollout_func": chatting(chats, turn_rewards=told), "step_size": 4}
    trainer = rewarded(tmp_path, None, **given, credit_baseline="none")
    output = output_of(trainer, ROWS)
    expected = []
    for (first, second), ends in zip(told, trainer.scored.step_ends, strict=True):
        second = second or 0.0
        expected.append([first + second] * ends[0] + [second] * (ends[1] - ends[0]))
    for row, want in zip(output["advantages"].tolist(), expected, strict=True):
        assert row[: len(want)] == pytest.approx(want)
    assert "turn_rewards" not in trainer._inputs[0]


def test_lists_that_cannot_be_used_are_refused_at_first_and_counted_later(tmp_path):
    class Broken(Rewarding):
        @described
        def look(self, key: int):
            self.turn_rewards = {1: Broken.wrong, 4: [0.1] * 9}.get(key, [0.5])

    trainer = rewarded(tmp_path, Broken, credit_baseline="none")
    for Broken.wrong in (0.0, {0: 0.5}, "5", [math.inf]):
        with pytest.raises(ValueError, match="turn_rewards"):
            played(trainer, ROWS, [PLAYS[0]] * 4)
    trainer.state.global_step = 1
    output = played(trainer, ROWS, PLAYS)
    assert trainer._metrics["train"]["barl/turn_rewards_unusable"] == [2]
    assert "unusable" in trainer._said
    assert [row.any().item() for row in output["advantages"]] == [False, False, False, True]
    assert "no reward" not in trainer._said
    played(trainer, ROWS, [[call("look", key=4), "Done."]] * 4)
    assert "no reward" in trainer._said


class Asked(Rewarding):
    """Tells the rewards by its method, which is no tool."""

    def reset(self, seed, **row):
        self.earned, self.turn_rewards = [], [9.0] * 9

    @described
    def look(self, key: int) -> str:
        self.earned.append(key / 10)
        return "x"

    def get_turn_rewards(self):
        return np.array(self.earned)

    def get_reward(self):
        return 0.0


AS_PROPERTY = type("AsProperty", (Asked,), {"get_turn_rewards": property(Asked.get_turn_rewards)})


@pytest.mark.parametrize("game", [Asked, AS_PROPERTY])
def test_a_method_tells_them_and_is_no_tool(tmp_path, game):
    trainer = rewarded(tmp_path, game, credit_baseline="none", reward_funcs=[])
    output = played(trainer, ROWS, [[call("get_turn_rewards"), "Done."], *PLAYS[1:]])
    assert "get_turn_rewards" not in trainer._tokenizer.decode(trainer.generated.prompt_ids[0])
    assert [tool.__name__ for tool in trainer.tools] == ["look"]
    assert "not found" in trainer.generated.completions[0][1]["content"]
    assert output["advantages"][:, 0].tolist() == pytest.approx([0.0, 0.4, 0.0, 0.8])


# The task is the environment's


class Owner(Rewarding):
    """Draws its task from the seed of the row."""

    solution = "12"

    def reset(self, seed, **row):
        super().reset(seed)
        self.hypotheses, self.prior = ["7", "12", "30"], (1, 2, 1)

    def _observation_log_likelihoods(self, hypotheses, steps):
        return [[0.0 if h != "30" else -math.inf for h in hypotheses] for _ in steps]


@pytest.mark.parametrize("credit", ["bayes", "barl"])
def test_an_environment_owns_hypotheses_prior_and_truth(tmp_path, credit):
    fields = {"reward_funcs": accuracy_reward, "credit": credit, "belief": "task"}
    trainer = rewarded(tmp_path, Owner, **fields)
    played(trainer, ROWS, [[call("look", key=2), r"\boxed{12}"], [r"\boxed{7}"]] * 2)
    assert trainer.scored.sets[0].answers == ("12", "7", "30")
    assert trainer.scored.evidence.log_prior[0].exp().tolist() == pytest.approx([1, 0.5, 0.5])
    assert trainer._rewards_per_func[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


SILENT = type("Silent", (Rewarding,), {"get_reward": lambda self: 1.0})
DRAWN = type("Drawn", (Owner,), {"solution": property(lambda self: str(id(self)))})
BAYES = {"credit": "bayes", "belief": "task"}


def begun(name, value):
    return type("Begun", (Owner,), {"reset": lambda self, **row: setattr(self, name, value)})


@pytest.mark.parametrize(
    ("game", "fields", "said"),
    [
        (Asked, {"credit": "barl", "reward_funcs": []}, "solution_column must"),
        (SILENT, BAYES | {"reward_funcs": []}, "must have hypotheses"),
        (DRAWN, BAYES, "solution"),
        (begun("turn_reward", []), {}, "turn_rewards"),
        (begun("turn_rewards", [0.1]), {}, "turn_rewards"),
        *[(begun(*told), BAYES, told[0]) for told in (("hypotheses", "7 12"), ("prior", {"7": 1}))],
    ],
)
def test_a_task_that_is_nowhere_or_not_one_is_an_error_at_once(tmp_path, game, fields, said):
    with pytest.raises(ValueError, match=said):
        played(rewarded(tmp_path, game, **fields), ROWS, PLAYS)
