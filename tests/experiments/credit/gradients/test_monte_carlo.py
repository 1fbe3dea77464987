"""Values of states by sampled continuations, against the sum over all that there are."""

from functools import partial
from math import sqrt

import pytest
import torch
from torch import nn

from barl_trl.graders import Verdict
from barl_trl.graders.grader import Grader
from barl_trl.rewards import AccuracyReward
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.config import BARLConfig
from experiments.credit.arms import ARMS
from experiments.credit.batches import CreditTask, TokenizedProblem, scored_tokens
from experiments.credit.gradients.monte_carlo import ROWS, monte_carlo_weights

from ....tiny import tiny_model

LAST_DIGIT = Grader(
    "last_digit",
    "1",
    lambda text: text[-1:] or None,
    lambda truth, answer: Verdict(truth == answer, "the same digit"),
)
LONGEST, STEP = 5, 2
PROMPTS = {"1+1?": "2", "Half of six?": "3"}
COMPLETIONS = ["23322", "32.", ".", "223."]
"""Two of each prompt; a period is the end of the turn, which the first one has no tokens left for.
"""
STATES = [["", "23", "2332", "23322"], ["", "32"], [""], ["", "22", "223"]]
OUTCOMES = [1.0, 1.0, 0.0, 1.0]
DISTINCT = 8  # the first state is that of both rollouts of a prompt


@pytest.fixture(scope="module")
def letters(tokenizer):
    return {letter: tokenizer.encode(letter)[0] for letter in "23"} | {".": tokenizer.eos_token_id}


@pytest.fixture(scope="module")
def model(tokenizer, letters):
    """Writes 2, 3 or the end of its turn, with probabilities that depend on what stands there."""
    model = tiny_model(tokenizer, seed=1, std=0.1)
    biased = nn.Linear(32, len(tokenizer))
    biased.weight.data.copy_(model.lm_head.weight)
    biased.bias.data.fill_(-1e4)
    biased.bias.data[list(letters.values())] = 0.0
    model.lm_head = biased
    return model.eval()


@pytest.fixture(scope="module")
def task(tokenizer):
    return CreditTask(
        tokenizer,
        AccuracyReward(LAST_DIGIT, "last_digit"),
        partial(fixed_size_steps, step_size=STEP),
        end_ids=[tokenizer.eos_token_id],
        max_new_tokens=LONGEST,
        fields=BARLConfig(bf16=False),
    )


@pytest.fixture(scope="module")
def batch(model, task, tokenizer, letters):
    problems = [
        TokenizedProblem(tokenizer.encode(p), PROMPTS[p]) for p in PROMPTS for _ in range(2)
    ]
    completions = [[letters[letter] for letter in text] for text in COMPLETIONS]
    return scored_tokens(model, task, problems, completions, group_size=2, arms=[ARMS["rloo"]])


def weights_of(model, task, batch, *, number, seed=0):
    return monte_carlo_weights(
        model,
        task,
        batch,
        [truth for truth in PROMPTS.values() for _ in range(2)],
        number=number,
        generator=torch.Generator().manual_seed(seed),
    )


def values_of(batch, weights):
    """Values of each rollout's states, from its outcome back to its prompt."""
    found = []
    for row, ends in enumerate(batch.step_ends):
        advantages = [weights[row, end - 1].item() for end in ends]
        if COMPLETIONS[row].endswith("."):  # else there is no token to say what ending gains
            advantages.append(weights[row, len(COMPLETIONS[row]) - 1].item())
        else:
            advantages.append(0.0)
        values = [OUTCOMES[row]]
        for advantage in reversed(advantages):
            values.insert(0, values[0] - advantage)
        found.append(values[:-1])
    return found


@torch.no_grad()
def value(model, letters, prompt_ids, text, truth):
    """Sum over all ends of a text of their probability and outcome."""
    if text.endswith(".") or len(text) == LONGEST:
        return float(text.rstrip(".").endswith(truth))
    ids = torch.tensor([[*prompt_ids, *(letters[letter] for letter in text)]])
    shares = model(ids).logits[0, -1].softmax(dim=-1)
    return sum(
        shares[place].item() * value(model, letters, prompt_ids, text + letter, truth)
        for letter, place in letters.items()
    )


def test_the_rollouts_are_those_that_are_meant(batch):
    assert batch.outcomes.tolist() == OUTCOMES
    assert [[0, *ends] for ends in batch.step_ends] == [[*map(len, row)] for row in STATES]


def test_values_are_shares_of_continuations_that_end_right(model, task, batch, letters):
    number = 1000
    assert DISTINCT * number > 10 * ROWS  # some states are sampled in several parts
    found = values_of(batch, weights_of(model, task, batch, number=number))
    for row, texts in enumerate(STATES):
        truth = list(PROMPTS.values())[row // 2]
        for text, share in zip(texts, found[row], strict=True):
            exact = value(model, letters, batch.prompt_ids[row], text, truth)
            error = sqrt(exact * (1 - exact) / number)
            assert error > 0.01 or text == "23322"  # where nothing is left to chance
            assert share == pytest.approx(exact, abs=4 * error + 1e-5)
            assert number * share == pytest.approx(round(number * share), abs=1e-2)


def test_a_state_without_a_token_left_is_worth_what_stands_there(model, task, batch):
    for seed in range(5):
        values = values_of(batch, weights_of(model, task, batch, number=1, seed=seed))
        assert values[0][-1] == OUTCOMES[0]
        assert set(values[0]) <= {0.0, 1.0}


def test_tokens_of_a_step_weigh_the_same_and_padding_nothing(model, task, batch):
    weights = weights_of(model, task, batch, number=50)
    assert weights.shape == batch.token_mask.shape
    assert not weights[~batch.token_mask].any()
    for row, ends in enumerate(batch.step_ends):
        for start, end in zip([0, *ends], ends, strict=False):
            assert len(set(weights[row, start:end].tolist())) == 1
    assert weights[3, 0] != weights[3, 2]
