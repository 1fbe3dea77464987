"""A rollout batch is filled call by call, and says which tokens are weighed by which outcome."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl import BARLTrainer
from barl_trl.plausibility.answer_logps import AnswerLogLikelihoods
from barl_trl.rewards import accuracy_reward
from barl_trl.trainer.rollouts.hypothesis_scorer import Generated, Scored
from barl_trl.trainer.rollouts.rollout_batch import RolloutBatch

from . import by_hand
from .rollouts import CASES, HYPOTHESES, PROBLEMS, ROWS, config, given_rollouts, trainer, weights_of

# What is filled when


def filled(batch):
    contents = {
        "inputs": batch.inputs,
        "generated": batch.generated.completion_ids,
        "asks_for_old_logps": batch.asks_for_old_logps,
        "scored": batch.scored is not None,
        "rewards_per_func": batch.rewards_per_func is not None,
    }
    return [name for name, content in contents.items() if content]


class Watching(BARLTrainer):
    """Notes the calls of a rollout batch in their order, and what each finds filled."""

    def _watch(self, name, *arguments, **options):
        self.seen.append((name, filled(self._batch)))
        return getattr(super(), name)(*arguments, **options)

    def _generate(self, *arguments):
        return self._watch("_generate", *arguments)

    def _get_per_token_logps_and_entropies(self, *arguments, **options):
        return self._watch("_get_per_token_logps_and_entropies", *arguments, **options)

    def _calculate_rewards(self, *arguments):
        return self._watch("_calculate_rewards", *arguments)

    def _score(self, **options):
        return self._watch("_score", **options)

    def _generate_and_score_completions(self, inputs):
        self.seen = []
        self.batches = [*getattr(self, "batches", []), self.seen]
        output = super()._generate_and_score_completions(inputs)
        self.seen = []  # the loss makes one of these calls, too
        return output


def test_every_call_of_a_training_step_finds_what_earlier_ones_filled(model, tokenizer, tmp_path):
    watching = trainer(model, tokenizer, config(tmp_path, max_steps=2), cls=Watching)
    watching.train()
    batch = [
        ("_generate", ["inputs"]),
        ("_score", ["inputs", "generated"]),
        ("_calculate_rewards", ["inputs", "generated", "scored"]),
    ]
    assert watching.batches == [batch, batch]  # nothing of the first is left in the second


def test_answers_are_scored_before_old_log_probabilities_are_asked_for(model, tokenizer, tmp_path):
    args = config(tmp_path, per_device_train_batch_size=4, steps_per_generation=2)
    watching = trainer(model, tokenizer, args, cls=Watching)
    watching.train()
    assert watching.batches == [
        [
            ("_generate", ["inputs"]),
            ("_score", ["inputs", "generated", "asks_for_old_logps"]),
            (
                "_get_per_token_logps_and_entropies",
                ["inputs", "generated", "asks_for_old_logps", "scored"],
            ),
            ("_calculate_rewards", ["inputs", "generated", "scored"]),
        ]
    ]


def test_true_answers_of_a_rollout_func_are_known_with_the_rewards(model, tokenizer, tmp_path):
    def rollout_func(prompts, trainer):
        rollouts = given_rollouts()(prompts, trainer)
        return rollouts | {"solution": ["2"] * len(prompts)}

    watching = trainer(model, tokenizer, config(tmp_path), cls=Watching, rollout_func=rollout_func)
    watching.train()
    assert watching.batches == [
        [
            ("_generate", ["inputs"]),
            ("_calculate_rewards", ["inputs", "generated"]),
            ("_score", ["inputs", "generated", "rewards_per_func"]),
        ]
    ]


def test_what_is_read_too_early_is_empty_and_no_number():
    batch = RolloutBatch(ROWS, start=0)
    assert batch.generated == Generated([], [], [], cache=None)
    assert not batch.asks_for_old_logps
    assert batch.scored is None
    assert batch.rewards_per_func is None
    with pytest.raises(AttributeError, match="NoneType"):
        batch.outcome_rewards(torch.ones(1))


# Outcomes

rewards = st.none() | st.floats(-10, 10)


@given(st.data(), st.integers(1, 3))
def test_outcome_is_the_weighted_sum_of_the_rewards_that_are_there(data, num_functions):
    row = st.lists(rewards, min_size=num_functions, max_size=num_functions)
    table = data.draw(st.lists(row, min_size=1, max_size=5))
    weights = data.draw(st.lists(st.floats(-2, 2), min_size=num_functions, max_size=num_functions))
    batch = RolloutBatch([], start=0)
    batch.rewards_per_func = torch.tensor(
        [[float("nan") if reward is None else reward for reward in row] for row in table]
    )
    for got, row in zip(batch.outcome_rewards(torch.tensor(weights)), table, strict=True):
        found = [w * reward for w, reward in zip(weights, row, strict=True) if reward is not None]
        assert got.item() == pytest.approx(sum(found), abs=1e-4) if found else got.isnan()


@given(st.integers(1, 4), st.integers(1, 5))
def test_processes_take_their_own_rollouts_of_all(num_processes, per_process):
    values = torch.arange(num_processes * per_process)
    batches = [RolloutBatch([{}] * per_process, n * per_process) for n in range(num_processes)]
    torch.testing.assert_close(torch.cat([batch.local(values) for batch in batches]), values)


def scored_as(members, step_ends=(), sets=()):
    """What is known of rollouts which found the hypotheses `members` of three."""
    likelihoods = AnswerLogLikelihoods(
        answer_logps=torch.zeros(len(members), 1, 3),
        state_mask=torch.ones(len(members), 1, dtype=torch.bool),
        hypothesis_mask=torch.ones(len(members), 3, dtype=torch.bool),
        completion_logps=torch.zeros(len(members), 0),
        num_tokens=0,
        max_tokens=1,
        check_seconds=0.0,
    )
    return Scored([], [], list(sets), list(step_ends), [], [], likelihoods)


def test_outcome_of_each_hypothesis(model, tokenizer, tmp_path):
    args = config(
        tmp_path, value_normalization="none", credit_options={"outcome_mode": "hypothesis"}
    )
    got = weights_of(trainer(copy.deepcopy(model), tokenizer, args))
    answered_wrong = {r"I guess \boxed{3}", r"\boxed{7}"}
    expected = [
        by_hand.token_weights(
            model, tokenizer, p, c, HYPOTHESES[p], [v, float(c in answered_wrong)]
        )
        for p, c, v in CASES
    ]
    by_hand.assert_equal(got, expected)


def test_outcome_reward_is_the_weighted_sum_of_the_reward_functions(model, tokenizer, tmp_path):
    def brevity(completions, **kwargs):
        return [-len(c) / 10 for c in completions]

    args = config(tmp_path, value_normalization="none", reward_weights=[2.0, 0.5])
    got = weights_of(
        trainer(copy.deepcopy(model), tokenizer, args, reward_funcs=[accuracy_reward, brevity])
    )
    expected = [
        by_hand.token_weights(model, tokenizer, p, c, HYPOTHESES[p], 2 * v - len(c) / 20)
        for p, c, v in CASES
    ]
    by_hand.assert_equal(got, expected)


# Tokens


def test_tokens_that_may_have_a_weight_are_the_models_up_to_the_end_of_the_turn():
    output = {
        "completion_mask": torch.tensor([[1, 1, 1, 1, 0]] * 3),
        "tool_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1] * 5]),
    }
    scored = scored_as([None] * 3, step_ends=[[2, 3], [2], []])
    batch = RolloutBatch([{}] * 3, start=0, scored=scored)
    assert batch.weighable_tokens(output).int().tolist() == [
        [1, 1, 1, 1, 0],  # three tokens, and the one that ends the turn
        [1, 0, 1, 0, 0],  # the second is not the model's, the fourth behind the end
        [1, 0, 0, 0, 0],  # an empty completion is its end
    ]


def test_unscorable_rollouts_and_unusable_truths_weigh_nothing_and_are_counted(
    model, tokenizer, tmp_path
):
    def some(completions, **kwargs):
        return [None if "guess" in c else 1.0 for c in completions]

    def one(completions, **kwargs):
        return [1.0 for _ in completions]

    barl_trainer = trainer(model, tokenizer, config(tmp_path), reward_funcs=some)
    got = weights_of(barl_trainer)
    assert not any(got[1])
    assert any(got[0])

    unusable = ("Half of one?", "9" * 10_000)
    for rows, share in [([PROBLEMS[0], unusable], 0.5), ([("1+1?", None), unusable], 1.0)]:
        rows = rows + PROBLEMS  # which come later: a set without any truth is refused
        barl_trainer = trainer(model, tokenizer, config(tmp_path), rows=rows, reward_funcs=one)
        barl_trainer.train()
        log = barl_trainer.state.log_history[0]
        assert log["barl/unusable_truths"] == share
        assert (log["grad_norm"] > 0) == (share < 1)


def test_nothing_behind_the_end_of_the_turn_is_weighed(
    model, tokenizer, tmp_path, expected_weights
):
    behind = [tokenizer.pad_token_id, tokenizer.eos_token_id]

    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        output["completion_ids"] = [ids + behind for ids in output["completion_ids"]]
        return output

    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, rollout_func=rollout_func))
    by_hand.assert_equal(got, [row + [0.0] * len(behind) for row in expected_weights])


def test_tokens_that_are_not_the_models_are_not_weighed(
    model, tokenizer, tmp_path, expected_weights
):
    def rollout_func(prompts, trainer):
        output = given_rollouts()(prompts, trainer)
        masks = [[1] * len(ids) for ids in output["completion_ids"]]
        masks[0][2:4] = [0, 0]
        return output | {"env_mask": masks}

    args = config(tmp_path, value_normalization="none")
    got = weights_of(trainer(model, tokenizer, args, rollout_func=rollout_func))
    expected_weights[0][2:4] = [0.0, 0.0]
    by_hand.assert_equal(got, expected_weights)
