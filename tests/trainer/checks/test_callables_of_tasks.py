"""Functions and columns that say what the task knows, refused before a model is loaded."""

import pytest
from datasets import Dataset

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward, cost, format_reward

from ..rollouts import config

ROWS = [{"prompt": "Which?", "solution": "2", "numbers": ["1", "2"], "prior": [1.0, 3.0]}] * 2
TASK = {"belief": "task", "credit": "bayes", "hypotheses_column": "numbers"}


def likelihood(steps, hypotheses, **columns):
    return [[[0.0] * len(h) for _ in s] for s, h in zip(steps, hypotheses, strict=True)]


def one_number(steps, hypotheses, **columns):
    return [[0.0] for _ in steps]


def needs_more(steps, hypotheses, secret):
    return []


def crashing(steps, **columns):
    raise KeyError("hint")


class Game:
    def reset(self, **row):
        return None

    def get_reward(self) -> float:
        return 1.0


MISTAKES = [
    (
        {"belief": "model"},
        {"observation_likelihood": likelihood},
        "belief must be 'task'",
    ),
    ({"belief": "none"}, {}, "belief must be one of"),
    (
        {"hypotheses_column": "candidates"},
        {},
        "hypotheses_column must name a .*'candidates'",
    ),
    ({"hypotheses_column": "solution"}, {}, "hypotheses_column must hold lists of texts"),
    ({"prior_column": "weight"}, {}, "prior_column must name a column of train_dataset"),
    ({"prior_column": "solution"}, {}, "prior_column must hold a weight of at least 0 for each"),
    ({"hypotheses_column": None, "prior_column": "prior"}, {}, "prior_column must be None without"),
    (
        {"information_weight": -1.0},
        {},
        "information_weight must be a number of at least 0",
    ),
    (
        {"credit": "rloo", "information_weight": 0.5},
        {},
        "information_weight must be 0.0 with credit='rloo', got 0.5: it is a setting of bayes",
    ),
    (
        {"credit": "rloo"},
        {"outcome_under": lambda a, b: 1.0},
        "outcome_under must be None with credit='rloo'",
    ),
    ({}, {"outcome_under": lambda a: 1.0}, "outcome_under must take the arguments answer, hyp"),
    ({}, {"observation_likelihood": needs_more}, "observation_likelihood must take the arguments"),
    ({}, {"hypothesis_rewards": needs_more}, "hypothesis_rewards must take the arguments"),
    (
        {},
        {"observation_likelihood": one_number},
        r"got \[0.0\] for rollout 0 with 1 steps and 2 hypotheses",
    ),
    ({}, {"observation_likelihood": crashing}, "hint"),
    (
        {},
        {"reward_funcs": [accuracy_reward, format_reward]},
        r"one reward that is no cost with credit='bayes', got \['accuracy_reward', 'format_reward'",
    ),
    (
        {"credit": "belief_critic"},
        {"reward_funcs": [accuracy_reward, format_reward]},
        "one reward that is no cost with credit='belief_critic'",
    ),
]


@pytest.mark.parametrize(("fields", "arguments", "message"), MISTAKES)
def test_mistakes_are_told_before_the_model_is_loaded(tmp_path, fields, arguments, message):
    arguments = {"reward_funcs": accuracy_reward} | arguments
    with pytest.raises((ValueError, KeyError), match=message):
        BARLTrainer(
            "no/model",
            args=config(tmp_path, **TASK | fields),
            train_dataset=Dataset.from_list(ROWS),
            **arguments,
        )


def test_the_environments_reward_counts_as_one(tmp_path):
    rows = [row | {"prompt": [{"role": "user", "content": "Which?"}]} for row in ROWS]
    with pytest.raises(ValueError, match=r"got \['accuracy_reward', 'Game'\]"):
        BARLTrainer(
            "no/model",
            accuracy_reward,
            config(tmp_path, **TASK),
            Dataset.from_list(rows),
            environment_factory=Game,
        )


def test_the_environments_method_must_take_steps(tmp_path):
    class Knowing(Game):
        def _observation_log_likelihoods(self, hypotheses):
            return []

    rows = [row | {"prompt": [{"role": "user", "content": "Which?"}]} for row in ROWS]
    with pytest.raises(ValueError, match="must take the arguments self, hypotheses, steps, got"):
        BARLTrainer(
            "no/model",
            [],
            config(tmp_path, **TASK),
            Dataset.from_list(rows),
            environment_factory=Knowing,
        )


def test_a_cost_is_a_reward_that_is_marked():
    @cost
    def price(completions, **columns):
        return [-1.0] * len(completions)

    assert price(["a", "b"]) == [-1.0, -1.0]
    assert price.is_cost


def test_a_belief_that_nothing_changes_is_warned_of(tmp_path):
    with (
        pytest.warns(UserWarning, match="nothing tells hypotheses apart but their prior"),
        pytest.raises(OSError, match=r"huggingface\.co"),
    ):
        BARLTrainer("no/model", accuracy_reward, config(tmp_path, **TASK), Dataset.from_list(ROWS))
