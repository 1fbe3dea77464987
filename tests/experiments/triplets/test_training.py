"""The trainer's weights are the values of `synthetic.triplets`, and what is recorded."""

from dataclasses import replace

import pytest
import torch

from barl_trl.synthetic.triplets import completed, hypotheses, step_values
from experiments.triplets.__main__ import QUICK
from experiments.triplets.episodes import make_tokenizer
from experiments.triplets.training import ARMS, make_trainer, run


def first_batch(name, folder, **settings):
    """Returns prompts, actions and token weights of a trainer's first batch."""
    trainer = make_trainer(ARMS[name], 0, QUICK, folder, **settings)
    batches, make = [], trainer._generate_and_score_completions

    def kept(inputs):
        batches.append(make(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = kept
    trainer.train()
    batch = batches[0]
    first = make_tokenizer()("a")["input_ids"][0]
    return batch["prompt_ids"][:, -1] - first, batch["completion_ids"], batch["advantages"]


@pytest.mark.parametrize("name", ["barl-27", "barl-3"])
def test_the_trainers_weights_are_the_values_of_the_didactic_example(name, tmp_path):
    prompts, actions, weights = first_batch(name, tmp_path, credit_baseline="none")
    assert prompts.tolist() == [0] * 8 + [1] * 8
    triplets = hypotheses(prompts, ARMS[name].triplets)
    expected = step_values(actions, triplets)
    torch.testing.assert_close(weights, expected)
    found = completed(actions, triplets)[:, :-1, 0]
    assert found.any() and not weights[found].any(), "nothing is left to win"


@pytest.mark.parametrize("name", ["barl-27", "barl-3"])
def test_the_baseline_is_the_mean_of_the_prompts_other_rollouts_at_the_same_step(name, tmp_path):
    prompts, actions, weights = first_batch(name, tmp_path)
    values = step_values(actions, hypotheses(prompts, ARMS[name].triplets)).unflatten(0, (2, 8))
    others = (values.sum(dim=1, keepdim=True) - values) / 7
    torch.testing.assert_close(weights, (values - others).flatten(0, 1))


def test_rl_gives_every_step_the_outcome(tmp_path):
    prompts, actions, weights = first_batch("rl", tmp_path)
    outcomes = completed(actions, hypotheses(prompts, ()))[:, -1, 0].float().unflatten(0, (2, 8))
    others = (outcomes.sum(dim=1, keepdim=True) - outcomes) / 7
    expected = (outcomes - others).flatten()[:, None].expand_as(weights)
    torch.testing.assert_close(weights, expected)


def test_equal_seeds_give_equal_records_and_others_do_not():
    scale = replace(QUICK, completions=40)
    first, again, other = (run(ARMS["barl-3"], seed, scale) for seed in (0, 0, 1))
    assert first == again != other
    assert [record["batches"] for record in first] == [0, 1, 2]
