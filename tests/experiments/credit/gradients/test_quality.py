"""Bias and quality of gradients of which the truth is known: they are drawn around it."""

import math

import pytest
import torch

from experiments.credit.gradients.quality import effects, gradient_quality

NUMBER, SIZE = 400, 50
TRUE = torch.zeros(SIZE)
TRUE[0] = 3.0


def drawn(mean, noise, seed):
    generator = torch.Generator().manual_seed(seed)
    return mean + noise * torch.randn(NUMBER, SIZE, generator=generator)


REFERENCE = drawn(TRUE, 1.0, seed=0)


def expected_quality(mean, noise):
    """Of E[x] . r over the root of E|x|^2 = |E x|^2 + size * noise^2."""
    return (mean @ TRUE / math.sqrt(mean @ mean + SIZE * noise**2) / TRUE.norm()).item()


def test_an_unbiased_gradient_has_the_cosine_1_in_the_mean_whatever_its_noise():
    for noise in (0.5, 2.0):
        found = gradient_quality(drawn(TRUE, noise, seed=1), REFERENCE, REFERENCE)
        assert abs(found.bias.value - 1) < 3 * found.bias.error < 0.1
        assert found.quality.value == pytest.approx(expected_quality(TRUE, noise), abs=0.02)


def test_a_biased_gradient_has_the_cosine_of_its_mean():
    mean = torch.zeros(SIZE)
    mean[0], mean[1] = 3.0, 4.0
    found = gradient_quality(drawn(mean, 1.0, seed=2), REFERENCE, REFERENCE)
    assert found.bias.value == pytest.approx(0.6, abs=0.03)
    assert found.quality.value == pytest.approx(expected_quality(mean, 1.0), abs=0.02)


def test_the_reference_itself_is_not_flattered_by_its_own_noise():
    found = gradient_quality(REFERENCE, REFERENCE, REFERENCE)
    assert found.quality.value == pytest.approx(expected_quality(TRUE, 1.0), abs=0.02)
    assert found.gain == (0.0, 0.0)


def test_errors_are_the_spread_over_repetitions():
    qualities, errors = [], []
    for seed in range(40):
        generator = torch.Generator().manual_seed(100 + seed)
        x, r = (TRUE + torch.randn(16, SIZE, generator=generator) for _ in range(2))
        found = gradient_quality(x, r, r).quality
        qualities.append(found.value)
        errors.append(found.error)
    spread = torch.tensor(qualities).std().item()
    assert sum(errors) / len(errors) == pytest.approx(spread, rel=0.35)


def test_no_length_can_be_told_from_noise_alone():
    found = gradient_quality(drawn(0 * TRUE, 1.0, seed=5), REFERENCE, REFERENCE)
    assert math.isnan(found.bias.value) or abs(found.bias.value) < 3 * found.bias.error


def test_fewer_than_three_batches_have_no_errors():
    with pytest.raises(ValueError, match="gradients must be of at least 3 batches, got 2"):
        gradient_quality(REFERENCE[:2], REFERENCE[:2], REFERENCE[:2])


def test_a_step_along_the_true_gradient_gains_a_point_of_the_outcome():
    other = torch.zeros(SIZE)
    other[0], other[2] = -2.0, 5.0
    found = effects(
        drawn(TRUE, 1.0, seed=6),
        {"outcome": REFERENCE, "other": drawn(other, 1.0, seed=7)},
        REFERENCE,
    )
    assert found["outcome"].value == pytest.approx(0.01, abs=3 * found["outcome"].error)
    # a step of length .01 / 3 along the first axis
    assert found["other"].value == pytest.approx(-2 * 0.01 / 3, abs=3 * found["other"].error)
