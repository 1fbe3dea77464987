"""Completions sampled together, against decoding one prompt at a time, and against the softmax."""

import pytest
import torch

from experiments.sampling import sample

TEXTS = ["1 + 1?", "How many are there? It is \\boxed", "x", "the final answer is"]


@pytest.fixture
def prompts(tokenizer):
    return tokenizer(TEXTS)["input_ids"]


def sampled(model, prompts, max_new_tokens, end_ids=(), seed=0, **settings):
    settings |= {"generator": torch.Generator().manual_seed(seed), "end_ids": end_ids}
    return sample(model.eval(), prompts, max_new_tokens=max_new_tokens, **settings)


def greedy(model, prompt, max_new_tokens, end_ids=None):
    ids = torch.tensor([prompt])
    settings = {"max_new_tokens": max_new_tokens, "eos_token_id": end_ids, "do_sample": False}
    made = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    return made[0, len(prompt) :].tolist()


def test_at_a_low_temperature_it_is_greedy_with_every_rows_own_end_and_limit(model, prompts):
    free = [greedy(model, prompt, 14) for prompt in prompts]
    end_ids, limits = [free[0][3], free[1][8]], [14, 14, 2, 11]
    expected = [greedy(model, p, n, end_ids) for p, n in zip(prompts, limits, strict=True)]
    assert sampled(model, prompts, limits, end_ids, temperature=1e-4) == expected
    lengths = [len(ids) for ids in expected]
    assert len(set(lengths)) == 4  # rows left one after the other
    assert [ids[-1] in end_ids for ids in expected[:2]] == [True, True]
    assert expected[2] == free[2][:2]  # the end of a turn is in the completion, a limit is not


COPIES = 4000


def check_frequencies(tokens, probabilities):
    """Compare counts with a distribution: chi-square, its rare tokens counted as one."""
    counts = torch.bincount(torch.tensor(tokens), minlength=len(probabilities)).double()
    expected = probabilities.double() * len(tokens)
    rare = expected < 5
    found, expected = (torch.stack([*x[~rare], x[rare].sum()]) for x in (counts, expected))
    freedom = len(found) - 1
    assert freedom > 15
    chi_square = ((found - expected) ** 2 / expected).sum().item()
    assert abs(chi_square - freedom) < 4 * (2 * freedom) ** 0.5


@torch.no_grad()
def next_token(model, ids, temperature):
    return (model(torch.tensor(ids)).logits[:, -1] / temperature).softmax(dim=-1)


def test_tokens_have_the_probabilities_of_the_softmax(model, prompts):
    """The first ones, and the second ones behind all first ones that may have been."""
    temperature = 0.6
    long, short = prompts[1], prompts[2]
    rows, limits = [short, long] * COPIES, [2, 2, 1, 2] * (COPIES // 2)
    completions = sampled(model, rows, limits, temperature=temperature)
    for prompt, found in ((short, completions[::2]), (long, completions[1::2])):
        [first] = next_token(model, [prompt], temperature)
        check_frequencies([ids[0] for ids in found], first)
        vocabulary = range(len(first))
        second = next_token(model, [[*prompt, token] for token in vocabulary], temperature)
        check_frequencies([ids[1] for ids in found if len(ids) == 2], first @ second)
    assert sum(map(len, completions)) == sum(limits)
