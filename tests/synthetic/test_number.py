"""The game of numbers: what replies rule out, its reward, and the shipped model."""

import math
import random
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import torch
import trl
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.number import (
    COUNT,
    NUMBER_MODEL_DIR,
    NumberGame,
    found_secret,
    number_rows,
    random_accuracy,
)

NUMBERS = [str(n) for n in range(1, COUNT + 1)]
SAY = {"role": "assistant", "content": "\\boxed{7}"}


def asked(number, reply):
    call = {"function": {"name": "at_least", "arguments": {"number": number}}}
    return [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": reply}]


def test_rows_list_all_candidates_and_have_secrets_that_are_spread():
    rows = number_rows(400, seed=1)
    assert {row["solution"] for row in rows} == {*NUMBERS}
    assert all(row["candidates"] == NUMBERS for row in rows)
    assert len({row["prompt"][0]["content"] for row in rows}) > 350
    assert rows[:9] == number_rows(9, seed=1) != number_rows(9, seed=2)


@given(secret=st.integers(1, COUNT), questions=st.lists(st.integers(-3, 20), max_size=5))
def test_replies_rule_out_what_they_exclude(secret, questions):
    game = NumberGame()
    game.reset(solution=str(secret))
    steps = [asked(n, game.at_least(n)) for n in questions]
    logs = game._observation_log_likelihoods(NUMBERS, [*steps, [SAY]])
    left = {*range(1, COUNT + 1)}
    for row, question in zip(logs, [*questions, None], strict=True):
        is_known = question is not None and 2 <= question <= COUNT
        possible = {m for m in left if not is_known or (m >= question) == (secret >= question)}
        assert {n + 1 for n, log in enumerate(row) if log == 0} >= possible
        assert {*row} <= {0.0, -math.inf}
        left = possible
    assert [*range(game.least, game.most + 1)] == sorted(left)
    assert game.num_questions == len(questions)


def test_what_is_no_question_or_no_reply_says_nothing():
    steps = [[SAY], asked(99, "no"), asked("x", "yes"), asked(5, "perhaps")]
    steps.append(asked(5, "yes")[:1])  # its result did not fit
    call = {"function": {"name": "f", "arguments": {}}}
    steps.append([{"role": "assistant", "tool_calls": [call]}])
    found = [NumberGame()._observation_log_likelihoods(["3", "9"], [step]) for step in steps]
    assert found == [[[0.0, 0.0]]] * 6


def test_the_reward_is_for_a_boxed_secret_in_the_models_last_message():
    games = [NumberGame() for _ in range(4)]
    for game in games:
        game.reset(solution="7")
    games[0].at_least(7)
    completions = [
        [*asked(7, "yes"), SAY],
        [SAY | {"content": "\\boxed{8}"}],
        asked(7, "\\boxed{7}"),  # a reply is no answer
        [SAY | {"content": "7"}],
    ]
    logged = {}
    rewards = found_secret(completions, games, log_metric=logged.__setitem__, solution=["7"] * 4)
    assert rewards == [1, 0, 0, 0]
    assert logged["questions"] == 0.25 and logged["unanswered"] == 0.5
    assert logged["determined"] == 0
    assert logged["belief_entropy"] == pytest.approx((math.log(10) / math.log(16) + 3) / 4)
    games[0].at_least(8)
    found_secret(completions, games, log_metric=logged.__setitem__)
    assert logged["determined"] == 0.25


def test_random_questions_find_what_enumeration_says():
    found = Fraction()
    for secret, *questions in product(range(1, COUNT + 1), *[range(2, COUNT + 1)] * 2):
        left = [m for m in range(1, COUNT + 1) if all((m >= q) == (secret >= q) for q in questions)]
        found += Fraction(1, len(left))
    assert random_accuracy(2) == pytest.approx(float(found / COUNT / (COUNT - 1) ** 2))
    assert random_accuracy(0) == 1 / COUNT


def test_the_shipped_model_is_small_and_answers_what_the_replies_leave():
    """After three random questions it gives the secret most of what the exact belief gives it."""
    tokenizer = AutoTokenizer.from_pretrained(NUMBER_MODEL_DIR)
    template = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    assert tokenizer.chat_template == template.read_text(encoding="utf-8")
    model = AutoModelForCausalLM.from_pretrained(NUMBER_MODEL_DIR)
    assert model.num_parameters() < 300_000
    told, possible, rng = [], [], random.Random(1)
    for row in number_rows(100, seed=99):
        game, messages = NumberGame(), [*row["prompt"]]
        game.reset(**row)
        for number in rng.choices(range(2, COUNT + 1), k=3):
            messages += asked(number, game.at_least(number))
        text = tokenizer.apply_chat_template(
            messages, tools=[game.at_least], add_generation_prompt=True, tokenize=False
        )
        ids = tokenizer(text + "\\boxed{", return_tensors="pt")
        assert ids["input_ids"].shape[1] < 60
        with torch.no_grad():
            shares = model(**ids).logits[0, -1].softmax(-1)
        (token,) = tokenizer.encode(row["solution"])
        told.append(shares[token].item())
        possible.append(1 / (game.most - game.least + 1))
    assert sum(told) > 0.75 * sum(possible)
