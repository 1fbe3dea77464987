"""Draws, against the softmax and cut-offs by hand."""

from collections import Counter

import pytest
import torch

from barl_trl.evaluation.generation.decoding import Drawing
from barl_trl.evaluation.generation.seeded_sampling import SeededSampling


def test_samples_have_the_probabilities_of_the_softmax():
    logits, temperature, count = torch.tensor([2.0, 1.0, 0.0, -torch.inf]), 0.7, 4000
    draw = SeededSampling(range(count), Drawing(temperature), torch.device("cpu"))
    drawn = Counter(draw(torch.empty(count, 0), logits.repeat(count, 1)).argmax(dim=1).tolist())
    expected = (logits / temperature).softmax(dim=0)
    for token, probability in enumerate(expected.tolist()):
        deviation = (probability * (1 - probability) / count) ** 0.5
        assert abs(drawn[token] / count - probability) <= 4 * deviation


def kept_by_hand(probabilities, drawing):
    """Likeliest first: top_k counts, top_p adds up what is left, min_p compares with the first."""
    order = sorted(range(len(probabilities)), key=lambda token: -probabilities[token])
    order = order[: drawing.top_k]
    total = sum(probabilities[token] for token in order)
    kept, mass = [], 0.0
    for token in order:
        if drawing.top_p is None or mass < drawing.top_p:
            kept.append(token)
        mass += probabilities[token] / total
    least = (drawing.min_p or 0) * probabilities[order[0]]
    return {token for token in kept if probabilities[token] >= least}


@pytest.mark.parametrize(
    ("drawing", "number"),
    [
        (Drawing(1.0), 6),
        (Drawing(1.0, top_k=3), 3),
        (Drawing(1.0, top_p=0.8), 3),
        (Drawing(2.0, top_p=0.8), 4),  # a higher temperature leaves more
        (Drawing(1.0, min_p=0.2), 3),
        (Drawing(1.0, top_p=0.95, top_k=2), 2),
        (Drawing(1.0, top_p=0.8, top_k=3), 2),  # top_p counts in what top_k has left
        (Drawing(1.0, top_p=0.99, top_k=5, min_p=0.1), 4),
    ],
)
def test_cut_offs_leave_the_likeliest_tokens_and_their_ratios(drawing, number):
    probabilities = [0.5, 0.2, 0.15, 0.09, 0.05, 0.01]
    logits, count = torch.tensor(probabilities).log(), 3000
    draw = SeededSampling(range(count), drawing, torch.device("cpu"))
    drawn = Counter(draw(torch.empty(count, 0), logits.repeat(count, 1)).argmax(dim=1).tolist())
    heated = (logits.double() / drawing.temperature).softmax(dim=0).tolist()
    kept = kept_by_hand(heated, drawing)
    assert len(kept) == number
    assert set(drawn) == kept
    total = sum(heated[token] for token in kept)
    for token in kept:
        probability = heated[token] / total
        deviation = (probability * (1 - probability) / count) ** 0.5
        assert abs(drawn[token] / count - probability) <= 4 * deviation


def test_a_row_draws_the_same_without_the_others():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    whole, two = (SeededSampling(s, Drawing(1.0), torch.device("cpu")) for s in (range(4), [3, 1]))
    for _ in range(2):
        drawn = whole(torch.empty(4, 0), logits)[[3, 1]]
        assert torch.equal(drawn, two(torch.empty(2, 0), logits[[3, 1]]))
