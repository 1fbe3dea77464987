"""Gradients of a batch, against autograd on one rollout at a time; sketches, against theory."""

from itertools import combinations
from math import sqrt

import pytest
import torch
from torch import nn

from experiments.credit.arms import ARMS
from experiments.credit.gradients.sketches import (
    SKETCH_SIZE,
    Sketch,
    arm_gradients,
    batch_gradients,
    leave_one_out,
    quantity_weights,
    rescaled_steps,
)

from ....trainer.rollouts import CASES
from ..given_batches import given_batch

SHORT = "norm|layers.1.self_attn"
"""Parameters of the tiny model that a sketch keeps as they are; of all it does not."""


@pytest.fixture
def batch(model, tokenizer):
    return given_batch(model, tokenizer, [ARMS["barl"], ARMS["barl, sum"]])


def logps_alone(model, batch, row):
    """Log-probabilities of a completion's tokens, without padding."""
    prompt, completion = batch.prompt_ids[row], batch.completion_ids[row]
    logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    return logits.log_softmax(dim=-1)[range(len(completion)), completion]


def gradient_alone(model, parameters, batch, weights):
    """That of the sum over rollouts, one after the other, per token of the batch."""
    number, total = sum(map(len, batch.completion_ids)), 0.0
    for row, ids in enumerate(batch.completion_ids):
        logps = logps_alone(model, batch, row)
        gradients = torch.autograd.grad((logps * weights[row, : len(ids)]).sum(), parameters)
        total += torch.cat([gradient.flatten() for gradient in gradients]) / number
    return total


def check_equal(found, expected):
    assert expected.norm() > 1e-3
    assert (found - expected).norm() < 1e-4 * expected.norm()


# Sketches


def gradients_of(sketch, model, vectors):
    """Sketches of losses whose gradients are the vectors."""
    flat = torch.cat([parameter.flatten() for parameter in model.parameters()])
    return [sketch.of(flat @ vector) for vector in vectors]


@pytest.mark.parametrize("size", [1, 1000, SKETCH_SIZE])
def test_a_gradient_that_is_no_longer_than_a_sketch_is_kept_as_it_is(size):
    torch.manual_seed(0)
    model, vector = nn.Linear(size, 1, bias=False), torch.randn(size)
    [found] = gradients_of(Sketch(model), model, [vector])
    assert torch.equal(found, vector)


def test_products_of_sketches_estimate_products_of_gradients():
    """A product's error has variance (|x|^2 |y|^2 + (x y)^2 - 2 sum of x_i^2 y_i^2) / size."""
    torch.manual_seed(0)
    model, errors = nn.Linear(400, 250), []
    sketch = Sketch(model)
    for share in [0.0, 0.3, 1.0] * 50:
        x, noise = torch.randn(2, 100_250)
        y = share * x + noise
        a, b = gradients_of(sketch, model, [x, y])
        square = (x @ x) * (y @ y) + (x @ y) ** 2 - 2 * (x**2 @ y**2)
        errors.append((a @ b - x @ y) / (square / SKETCH_SIZE).sqrt())
    [ones] = gradients_of(sketch, model, [torch.ones(100_250)])  # where signs have to cancel
    assert abs(ones @ ones / 100_250 - 1) < 4 * sqrt(2 / SKETCH_SIZE)
    assert ones.shape == (SKETCH_SIZE,)
    errors = torch.stack(errors)
    assert abs(errors.mean()) < 4 / sqrt(len(errors))
    assert abs(errors.square().mean() - 1) < 4 * sqrt(2 / len(errors))


def test_sketches_are_linear_and_those_of_another_run_alike(model):
    vectors = torch.randn(2, sum(p.numel() for p in model.parameters()))
    one, other = gradients_of(Sketch(model), model, vectors)
    assert one.shape == (SKETCH_SIZE,)
    both, again = gradients_of(Sketch(model), model, [vectors[0] - 3 * vectors[1], vectors[0]])
    torch.testing.assert_close(both, one - 3 * other, atol=1e-4, rtol=1e-4)
    assert torch.equal(again, one)


def test_a_pattern_picks_parameters(model):
    sketch = Sketch(model, r"layers\.1.*norm")
    norms = [
        model.model.layers[1].input_layernorm.weight,
        model.model.layers[1].post_attention_layernorm.weight,
    ]
    assert [id(p) for p in sketch.parameters] == [id(p) for p in norms]
    loss = norms[0].sum() + 5 * norms[1].sum() + 7 * model.lm_head.weight.sum()
    assert sketch.of(loss).tolist() == [1.0] * 32 + [5.0] * 32
    assert len(Sketch(model).parameters) == len(list(model.parameters()))


def test_a_pattern_without_match_is_refused(model):
    text = "parameters must match the name of a parameter, got 'decoder': names look like "
    with pytest.raises(ValueError, match=f"{text}'model.embed_tokens.weight'"):
        Sketch(model, "decoder")


# Gradients of weights


def test_gradients_of_all_parameters_are_sketched(model, batch):
    weights = {name: batch.token_weights(ARMS[name]) for name in ("barl", "progress", "rloo")}
    found = batch_gradients(model, Sketch(model), batch, weights)
    parameters = list(model.parameters())
    whole = {name: gradient_alone(model, parameters, batch, w) for name, w in weights.items()}
    for one, other in combinations(weights, 2):
        error = found[one] @ found[other] - whole[one] @ whole[other]
        assert 0 < abs(error) < 5 * whole[one].norm() * whole[other].norm() * sqrt(2 / SKETCH_SIZE)


# Weights


def others_left_out(rewards):
    """Each reward less the mean of the others of its group, of four."""
    found = []
    for row, reward in enumerate(rewards):
        first = row // 4 * 4
        others = [rewards[n] for n in range(first, first + 4) if n != row]
        found.append(reward - sum(others) / 3)
    return found


def check_weights(batch, weights, rewards):
    for row, (ids, value) in enumerate(
        zip(batch.completion_ids, others_left_out(rewards), strict=True)
    ):
        assert weights[row, : len(ids)].tolist() == pytest.approx([value] * len(ids), abs=1e-4)
        assert not weights[row, len(ids) :].any()


@torch.no_grad()
def test_rewards_of_other_quantities(model, batch):
    weights = quantity_weights(model, batch)
    logps = [logps_alone(model, batch, row).sum().item() for row in range(8)]
    assert weights.keys() == {"answered", "tokens", "entropy"}
    check_weights(batch, weights["answered"], [float("boxed" in text) for _, text, _ in CASES])
    check_weights(batch, weights["tokens"], [float(len(ids)) for ids in batch.completion_ids])
    check_weights(batch, weights["entropy"], [-logp for logp in logps])


# Controls


@pytest.fixture
def sketch(model):
    return Sketch(model, SHORT)


@pytest.fixture
def of_steps(model, sketch, batch):
    """Gradients of plain RL at each place of a step alone."""
    alone = {n: plain_weights(batch) * (batch.step_places == n) for n in range(6)}
    assert torch.equal(sum(alone.values()), plain_weights(batch))
    assert all(weights.any() for weights in alone.values())
    return batch_gradients(model, sketch, batch, alone)


def plain_weights(batch):
    return leave_one_out(batch.outcomes, batch)


def test_the_control_of_a_larger_step_has_it_larger(model, sketch, batch, of_steps):
    plain = plain_weights(batch)
    doubled = plain * (1 + (batch.step_places == 1))
    control = rescaled_steps(doubled, of_steps, plain, batch)
    check_equal(control, gradient_alone(model, sketch.parameters, batch, doubled))


def test_the_control_is_blind_to_which_rollout_is_meant(model, sketch, batch, of_steps):
    plain = plain_weights(batch)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])[:, None]
    control = rescaled_steps(signs * plain, of_steps, plain, batch)
    check_equal(control, gradient_alone(model, sketch.parameters, batch, plain))


def test_steps_that_plain_rl_leaves_alone_are_left_alone(model, sketch, batch, of_steps):
    plain = plain_weights(batch) * (batch.step_places != 1)
    of_steps[1] = torch.zeros_like(of_steps[1])
    control = rescaled_steps(torch.ones_like(plain) * batch.token_mask, of_steps, plain, batch)
    sizes = {n: plain[batch.step_places == n].square().mean().sqrt().item() for n in of_steps}
    expected = sum(g / sizes[n] for n, g in of_steps.items() if n != 1)
    check_equal(control, expected)


# All together


def test_all_that_a_comparison_needs(model, sketch, batch, of_steps):
    arms = {name: ARMS[name] for name in ("grpo", "barl", "barl, sum")}
    found = arm_gradients(model, sketch, batch, arms)
    plain, quantities = plain_weights(batch), quantity_weights(model, batch)
    expected = {"reference": gradient_alone(model, sketch.parameters, batch, plain)}
    for name, arm in arms.items():
        weights = batch.token_weights(arm)
        expected[f"arm/{name}"] = gradient_alone(model, sketch.parameters, batch, weights)
        expected[f"control/{name}"] = rescaled_steps(weights, of_steps, plain, batch)
    for name, weights in quantities.items():
        expected[f"effect/{name}"] = gradient_alone(model, sketch.parameters, batch, weights)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        check_equal(found[name], gradient)
