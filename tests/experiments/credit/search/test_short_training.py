"""Short trainings: a gradient that is the trainer's, steps that are AdamW's, rollouts in common."""

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.search import TINY_MODEL_DIR, problems
from experiments.credit.arms import ARMS
from experiments.credit.batches import TokenizedProblem, rollout_batch
from experiments.credit.search import short_training
from experiments.credit.search.runs import search_task
from experiments.credit.search.short_training import (
    ShortTraining,
    add_gradient,
    train,
)

from ....trainer.rollouts import config, trainer
from ..given_batches import given_batch, some_cut_off

# Gradient


def check_gradient(model, expected):
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("credit", ["grpo", "barl", "belief_critic"])
def test_gradient_is_that_of_the_trainers_first_step(model, tokenizer, tmp_path, credit):
    batch = given_batch(model, tokenizer, [ARMS[credit]])
    add_gradient(model, batch, batch.token_weights(ARMS[credit]))
    args = config(
        tmp_path,
        credit=credit,
        loss_type="dapo",
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=1e9,
    )
    trained = copy.deepcopy(model)
    trainer(trained, tokenizer, args, rollout_func=some_cut_off).train()
    pairs = zip(model.parameters(), trained.parameters(), strict=True)
    steps = [(before - after).detach() for before, after in pairs]
    check_gradient(model, steps)
    assert max(step.abs().max() for step in steps) > 1e-2


# Training

SHORT = ShortTraining(steps=3, prompts=2, group_size=4, learning_rate=1e-3, warmup_steps=2)


@pytest.fixture(scope="module")
def task():
    return search_task(AutoTokenizer.from_pretrained(TINY_MODEL_DIR), tokens=36)


@pytest.fixture
def seen(monkeypatch):
    """The batches of the trainings that follow."""
    batches = []

    def watched(*args, **settings):
        batches.append(rollout_batch(*args, **settings))
        return batches[-1]

    monkeypatch.setattr(short_training, "rollout_batch", watched)
    return batches


def search_model():
    return AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)


def search_problems(task, seed=0):
    for problem in problems(seed, num_candidates=3):
        yield TokenizedProblem(task.tokenizer(problem.prompt)["input_ids"], problem.solution)


def trained(task, arm, *, seed=0, evaluate=lambda model, step: {}, **changes):
    """Return the model and what was measured."""
    model, settings = search_model(), replace(SHORT, **changes)
    stream = search_problems(task, seed)
    return model, train(
        model, task, ARMS[arm], stream, seed=seed, settings=settings, evaluate=evaluate
    )


def difference(model, other):
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


@torch.no_grad()
def adamw(parameters, gradients, rates, betas=(0.9, 0.999), eps=1e-8):
    """Take AdamW's steps without weight decay; `gradients` yields those at the parameters."""
    first = second = [torch.zeros_like(p) for p in parameters]
    for t, (rate, gradient) in enumerate(zip(rates, gradients, strict=True), start=1):
        first = [betas[0] * m + (1 - betas[0]) * g for m, g in zip(first, gradient, strict=True)]
        second = [
            betas[1] * v + (1 - betas[1]) * g**2 for v, g in zip(second, gradient, strict=True)
        ]
        for p, m, v in zip(parameters, first, second, strict=True):
            p -= rate * m / (1 - betas[0] ** t) / ((v / (1 - betas[1] ** t)).sqrt() + eps)


def test_steps_are_those_of_adamw_on_the_clipped_gradient(task):
    most, seed, arm = 0.01, 3, ARMS["progress"]
    expected, stream = search_model().eval(), search_problems(task, seed)
    parameters, generator = list(expected.parameters()), torch.Generator().manual_seed(seed)

    def gradients():
        for _ in range(SHORT.steps):
            pair = [next(stream), next(stream)]
            settings = {"group_size": 4, "arms": [arm], "generator": generator}
            batch = rollout_batch(expected, task, pair, **settings)
            expected.zero_grad()
            with torch.enable_grad():
                add_gradient(expected, batch, batch.token_weights(arm))
            found: Any = [p.grad for p in parameters]
            norm = torch.stack([gradient.norm() for gradient in found]).norm()
            assert norm > 2 * most
            yield [gradient * most / norm for gradient in found]

    adamw(parameters, gradients(), rates=[5e-4, 1e-3, 1e-3])
    model, _ = trained(task, "progress", seed=seed, max_grad_norm=most)
    assert difference(model, expected) < 1e-5
    assert difference(model, search_model()) > 1e-3


@pytest.mark.parametrize(("steps", "expected"), [(3, [0, 2, 3]), (2, [0, 2])])
def test_evaluations_are_before_on_the_way_and_behind(task, seen, steps, expected):
    def evaluate(model, step):
        copies.append(copy.deepcopy(model))
        return {"twice": 2.0 * step}

    copies = []
    model, measured = trained(task, "grpo", steps=steps, evaluate_every=2, evaluate=evaluate)
    assert [entry["step"] for entry in measured] == expected
    assert [entry["twice"] for entry in measured] == [2 * step for step in expected]
    assert difference(copies[0], search_model()) == 0 < difference(copies[1], copies[0])
    assert difference(copies[-1], model) == 0
    assert math.isnan(measured[0]["reward"])
    rewards = [batch.outcomes.mean().item() for batch in seen]
    assert measured[1]["reward"] == pytest.approx(sum(rewards[:2]) / 2)
    if steps == 3:
        assert measured[2]["reward"] == rewards[2]
    assert 0 < sum(rewards) < steps


def test_same_seed_same_training_and_arms_begin_with_the_same_rollouts(task, seen):
    models = {}
    for run in [("grpo", 0, ""), ("grpo", 0, "again"), ("progress", 0, ""), ("grpo", 1, "")]:
        models[run], _ = trained(task, run[0], seed=run[1], steps=2)
    same, again, other_arm, other_seed = [seen[n : n + 2] for n in range(0, 8, 2)]
    model = models["grpo", 0, ""]
    assert difference(model, models["grpo", 0, "again"]) == 0
    assert difference(model, models["progress", 0, ""]) > 1e-4
    assert [b.completion_ids for b in again] == [b.completion_ids for b in same]
    assert [b.prompt_ids for b in other_arm] == [b.prompt_ids for b in same]
    assert other_arm[0].completion_ids == same[0].completion_ids
    assert other_seed[0].completion_ids != same[0].completion_ids
