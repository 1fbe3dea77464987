"""The games of finding out: replies, likelihoods, rows, environments, reference policies."""

import inspect
import math
import random
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import trl
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.inquiry import (
    GAMES,
    NumberGame,
    animals,
    code,
    found_secret,
    greedy_question,
    inquiry_model_dir,
    number,
    optimal_number_accuracy,
    question_cost,
    random_question,
    reference_play,
    words,
)
from barl_trl.synthetic.inquiry.inquiries import letter_marks

from ..paths import ROOT

five_letters = st.text("abc", min_size=5, max_size=5)
pegs = st.text("ABCDEF", min_size=3, max_size=3)


@given(question=st.integers(2, 16), secret=st.integers(1, 16))
def test_a_number_is_at_least_another(question, secret):
    assert number().reply(str(question), str(secret)) == ("yes" if secret >= question else "no")


@given(guess=pegs, secret=pegs)
def test_pegs_are_counted_by_pairing_them(guess, secret):
    """The white pegs are those of the best pairing of pegs that are not in their place."""
    black = {n for n in range(3) if guess[n] == secret[n]}
    rest = [n for n in range(3) if n not in black]
    white = 0
    left = [secret[n] for n in rest]
    for n in rest:
        if guess[n] in left:
            left.remove(guess[n])
            white += 1
    assert code().reply(guess, secret) == f"{len(black)} black, {white} white"


@given(guess=five_letters, secret=five_letters)
def test_each_letter_is_marked_as_often_as_the_secret_has_it(guess, secret):
    marks = letter_marks(guess, secret)
    assert [m == "+" for m in marks] == [a == b for a, b in zip(guess, secret, strict=True)]
    for letter in "abc":
        marked = sum(m != "-" for a, m in zip(guess, marks, strict=True) if a == letter)
        assert marked == min(guess.count(letter), secret.count(letter))
    for n, mark in enumerate(marks):  # of letters that are not in place, the first are marked
        if mark == "?":
            earlier = [m for a, m in zip(guess[:n], marks[:n], strict=True) if a == guess[n]]
            assert "-" not in earlier


@pytest.mark.parametrize(
    "inquiry", [number(), number(error_rate=0.2), code(), words(40), animals()]
)
def test_likelihoods_of_the_replies_to_a_question_sum_to_one(inquiry):
    for question in inquiry.questions[::7]:
        logs = [inquiry.log_likelihoods(question, reply) for reply in inquiry.replies]
        np.testing.assert_allclose(np.exp(logs).sum(axis=0), 1)


def test_replies_are_wrong_as_often_as_the_likelihoods_say():
    inquiry, rng = animals(), random.Random(0)
    question, secret = inquiry.questions[3], inquiry.hypotheses[5]
    counts = Counter(inquiry.reply(question, secret, rng) for _ in range(4000))
    for reply in inquiry.replies:
        p = math.exp(inquiry.log_likelihoods(question, reply)[inquiry.places[secret]])
        assert abs(counts[reply] / 4000 - p) < 4 * math.sqrt(p * (1 - p) / 4000)


def test_what_is_no_question_or_no_reply_says_nothing():
    for question, reply in (("99", "yes"), ("3", "perhaps"), ("", "")):
        assert not number().log_likelihoods(question, reply).any()


def test_rows_have_all_candidates_and_secrets_that_are_spread():
    rows = number().rows(400, seed=1)
    assert {row["solution"] for row in rows} == {*number().hypotheses}
    assert all(row["candidates"] == [*number().hypotheses] for row in rows)
    assert len({row["prompt"][0]["content"] for row in rows}) > 350


def test_prompts_that_can_be_learned_by_heart_always_have_the_same_secret():
    rows = number().rows(4000, seed=2, num_prompts=2000)
    pairs = {(row["prompt"][0]["content"], row["solution"]) for row in rows}
    assert len(pairs) == len({prompt for prompt, _ in pairs}) == 2000


def test_secrets_may_be_some_of_the_candidates():
    rows = number().rows(100, seed=3, secrets=["2", "4"])
    assert {row["solution"] for row in rows} == {"2", "4"}
    assert len(rows[0]["candidates"]) == 16


def asked(tool, argument, value, reply):
    call = {"function": {"name": tool, "arguments": {argument: value}}}
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "name": tool, "content": reply},
    ]


@given(secret=st.integers(1, 16), questions=st.lists(st.integers(-3, 20), max_size=5))
def test_an_environment_rules_out_what_its_replies_exclude(secret, questions):
    game = NumberGame()
    game.reset(solution=str(secret))
    steps = [asked("at_least", "number", n, game.at_least(n)) for n in questions]
    steps.append([{"role": "assistant", "content": "It is \\boxed{3}."}])
    logs = game._observation_log_likelihoods([*game.inquiry.hypotheses], steps)
    for row, question in zip(logs, [*questions, None], strict=True):
        is_known = question is not None and 2 <= question <= 16
        left = [m for m in range(1, 17) if not is_known or (m >= question) == (secret >= question)]
        assert [n + 1 for n in np.flatnonzero(row == 0)] == left
    assert game.num_questions == len(questions)
    expected = np.exp(logs.sum(axis=0))
    np.testing.assert_allclose(game.belief, expected / expected.sum())


def test_a_belief_with_another_error_rate_keeps_what_cannot_be():
    game = NumberGame(number(error_rate=0.5), assumed=number())
    game.reset(solution="9")
    random.seed(1)
    for n in (5, 5, 5, 5, 5, 5):  # the assumed game says that all replies are equal
        game.at_least(n)
    assert game.belief.sum() == pytest.approx(1) and (game.belief > 0).sum() in (4, 12)


def test_a_redrawn_secret_is_not_the_rows():
    game = NumberGame(redraws=True)
    random.seed(0)
    secrets = set()
    for _ in range(100):
        game.reset(solution="1")
        secrets.add(game.secret)
    assert secrets == {*number().hypotheses}


def test_the_reward_is_for_a_boxed_secret_in_the_models_last_message():
    games = [NumberGame() for _ in range(4)]
    for game in games:
        game.reset(solution="7")
    games[0].at_least(7)
    say = {"role": "assistant", "content": "\\boxed{7}"}
    completions = [
        [*asked("at_least", "number", 7, "yes"), say],
        [say | {"content": "\\boxed{8}"}],
        asked("at_least", "number", 7, "\\boxed{7}"),  # a reply is no answer
        [say | {"content": "7"}],
    ]
    logged = {}
    rewards = found_secret(completions, games, log_metric=logged.__setitem__, solution=["7"] * 4)
    assert rewards == [1, 0, 0, 0]
    assert logged["questions"] == 0.25 and logged["unanswered"] == 0.5
    assert logged["determined"] == 0
    assert logged["belief_entropy"] == pytest.approx((math.log(10) / math.log(16) + 3) / 4)
    assert logged["log_score"] == pytest.approx(-(math.log(10) + 3 * math.log(16)) / 4)
    assert question_cost(0.25)(games) == [-0.25, 0, 0, 0]


@given(st.integers(0, 2**31), st.sampled_from([number(), number(error_rate=0.1), code(3, 3)]))
def test_the_greedy_question_gains_the_most_information(seed, inquiry):
    """Beside the mutual information of reply and secret, summed in plain loops."""
    rng = np.random.default_rng(seed)
    belief = rng.dirichlet(np.full(len(inquiry.hypotheses), 0.3))

    def information(question):
        joint = [
            [
                math.exp(log) * b
                for log, b in zip(inquiry.log_likelihoods(question, o), belief, strict=True)
            ]
            for o in inquiry.replies
        ]
        gain = 0.0
        for row in joint:
            for cell, b in zip(row, belief, strict=True):
                if cell > 0:
                    gain += cell * math.log(cell / (sum(row) * b))
        return gain

    chosen = inquiry.questions[greedy_question(inquiry, belief, random.Random(0))]
    assert information(chosen) == pytest.approx(max(map(information, inquiry.questions)), abs=1e-9)


@pytest.mark.parametrize(("count", "questions"), [(4, 1), (4, 2), (5, 2), (8, 2)])
def test_the_best_policy_for_numbers_beside_a_search_over_all(count, questions):
    def best(left, more):
        """Largest probability of the right answer, times the number of hypotheses left."""
        if not more or len(left) == 1:
            return 1
        values = []
        for q in range(2, count + 1):
            parts = [[m for m in left if (m >= q) is yes] for yes in (True, False)]
            values.append(sum(best(part, more - 1) for part in parts if part))
        return max(values)

    numbers = [*range(1, count + 1)]
    assert optimal_number_accuracy(count, questions) == best(numbers, questions) / count
    if count in (4, 8):
        play = reference_play(number(count), greedy_question, questions, games=count)
        assert play.accuracy == optimal_number_accuracy(count, questions)


def test_random_questions_find_what_enumeration_says():
    inquiry = number(4)
    found = 0.0
    for secret, *asked_ones in product(range(1, 5), (2, 3, 4), (2, 3, 4)):
        left = [m for m in range(1, 5) if all((m >= q) == (secret >= q) for q in asked_ones)]
        found += 1 / len(left)
    play = reference_play(inquiry, random_question, 2, games=4000)
    assert abs(play.accuracy - found / 36) < 4 * play.standard_error


@pytest.mark.parametrize("name", ["number", "code", "words", "animals"])
def test_a_shipped_model_is_small_and_trl_knows_its_template(name):
    folder = inquiry_model_dir(name)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    assert tokenizer.chat_template == template.read_text(encoding="utf-8")
    game = GAMES[name]
    tools = [getattr(game(), name) for name in vars(game) if name in ("at_least", "guess", "ask")]
    message = {"role": "user", "content": game.inquiry.prompt(417)}
    prompt = tokenizer.apply_chat_template([message], tools=tools, add_generation_prompt=True)
    assert len(prompt["input_ids"]) < 20
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4_000_000
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() < 1_000_000


@pytest.mark.parametrize(
    ("name", "share"), [("number", 0.75), ("code", 0.4), ("words", 0.75), ("animals", 0.75)]
)
def test_a_shipped_model_answers_what_the_replies_leave(name, share):
    """After three random questions it gives the secret at least this share of the probability that
    the exact belief gives it.
    """
    folder, game, rng = inquiry_model_dir(name), GAMES[name], random.Random(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    (tool,) = (tool for tool in vars(game) if tool in ("at_least", "guess", "ask"))
    (parameter,) = [p for p in inspect.signature(getattr(game, tool)).parameters if p != "self"]
    told, possible = [], []
    for row in game.inquiry.rows(200, seed=99):
        environment = game()
        environment.reset(**row)
        messages = row["prompt"]
        for _ in range(3):
            question = rng.choice(game.inquiry.questions)
            given = int(question) if name == "number" else question
            call = {"type": "function", "function": {"name": tool, "arguments": {parameter: given}}}
            reply = getattr(environment, tool)(given)
            messages = [
                *messages,
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "name": tool, "content": reply},
            ]
        text = tokenizer.apply_chat_template(
            messages, tools=[getattr(game(), tool)], add_generation_prompt=True, tokenize=False
        )
        ids = tokenizer(text + "\\boxed{", return_tensors="pt")
        with torch.no_grad():
            shares = model(**ids).logits[0, -1].softmax(-1)
        secret = row["solution"]
        (token,) = tokenizer.encode(secret)
        told.append(shares[token].item())
        possible.append(environment.belief[game.inquiry.places[secret]])
    assert sum(told) > share * sum(possible)


def test_the_example_has_the_tool_of_the_package():
    """Else the shipped model would see another schema than it was trained on."""
    example = {}
    exec((ROOT / "examples" / "agents.py").read_text().partition("if __name__")[0], example)
    assert example["NumberGame"].at_least.__doc__ == NumberGame.at_least.__doc__
