"""Beliefs beside continuations: by hand, and on a real model."""

from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.evaluation.beliefs.response_values import response_scorer
from barl_trl.graders import get_grader
from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.config import BARLConfig
from experiments.calibration.points import (
    ELICITATIONS,
    Point,
    continued,
    next_turn,
    points,
    squared_error,
    summary,
)

from ...evaluation.test_response_values import RESPONSES, STEP, plain_log_likelihoods, records_of

GRADER = get_grader("math_verify")


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 12))
def test_the_squared_error_is_right_on_average(believed, probability, number):
    expected = sum(
        comb(number, k)
        * probability**k
        * (1 - probability) ** (number - k)
        * squared_error(believed, k / number, number)
        for k in range(number + 1)
    )
    assert expected == pytest.approx((believed - probability) ** 2, abs=1e-9)


def test_a_summary_by_hand():
    found = [
        Point("plausibility", 0, 0.1, 0.0),
        Point("plausibility", 0, 0.12, 0.5),
        Point("plausibility", 1, 1.0, 1.0),
    ]
    got = summary(found, number=3)
    # 0.01, and 0.38^2 less a variance of 0.25 / 2; the problems' means are averaged
    problems = [(0.01 + 0.38**2 - 0.125) / 2, 0.0]
    assert got["squared_error"] == pytest.approx(sum(problems) / 2)
    assert got["standard_error"] == pytest.approx(abs(problems[0]) / 2)
    assert got["gap"] == pytest.approx((2 * abs(0.11 - 0.25) + 0) / 3)
    assert got["rank_correlation"] == pytest.approx(1.0)
    low, high = got["bins"]
    assert (low["number"], low["share"], low["standard_error"]) == (2, 0.25, None)
    assert (high["number"], high["believed"], high["share"]) == (1, 1.0, 1.0)
    assert summary(found[:1], number=3)["rank_correlation"] is None


@pytest.fixture
def scorer(tokenizer):
    return response_scorer(
        tokenizer,
        BARLConfig(bf16=False, step_size=STEP),
        grader=GRADER,
        step_segmenter=lambda ids: fixed_size_steps(ids, step_size=STEP),
    )


def test_every_state_is_continued_and_begins_with_what_was_written(model, tokenizer, scorer):
    generator = torch.Generator().manual_seed(0)
    settings = {"number": 3, "max_tokens": 60, "generator": generator}
    texts = continued(model.eval(), scorer, RESPONSES, **settings)
    assert {len(found) for found in texts.values()} == {3}
    prompt = tokenizer.encode(RESPONSES[0].prompt)
    expected = {tuple(prompt)}
    for response in RESPONSES:
        chain = tokenizer.encode(response.response)
        ends = [*range(STEP, len(chain), STEP), len(chain)]
        expected |= {(*prompt, *chain[:end]) for end in ends}
    assert set(texts) == expected
    for state, found in texts.items():
        written = tokenizer.decode(state[len(prompt) :], skip_special_tokens=True)
        assert all(text.startswith(written) for text in found)


def test_beliefs_stand_beside_the_shares_of_their_answers(model, tokenizer, scorer):
    """Continuations are given: half of them answer 2, a quarter 11, one nothing."""
    texts = continued(
        model.eval(),
        scorer,
        RESPONSES,
        number=2,
        max_tokens=40,
        generator=torch.Generator().manual_seed(0),
    )
    answers = [r"So \boxed{2}.", r"\boxed{\frac{4}{2}}", r"\boxed{11}", "None."]
    found = points(model, scorer, RESPONSES, dict.fromkeys(texts, answers), GRADER)
    plausible = [point for point in found if point.quantity == "plausibility"]
    assert [point.share for point in plausible] == [0.5, 0.25] * (len(plausible) // 2)
    assert {point.share for point in found if point.quantity == "truth_mass"} == {0.5}
    assert {point.problem_id for point in found} == {5}

    expected, masses = [], []
    records = records_of(model, scorer, RESPONSES)
    for n, (response, record) in enumerate(zip(RESPONSES, records, strict=True)):
        first = 1 if n else 0  # all responses begin with one state
        logps = plain_log_likelihoods(model, tokenizer, response.prompt, response.response)
        expected += [logp for row in logps[first:] for logp in row]
        masses += [row[0] for row in record["posterior"][first:]]
    got = torch.tensor([point.believed for point in plausible])
    torch.testing.assert_close(got, torch.tensor(expected).exp(), atol=1e-4, rtol=0)
    assert [p.believed for p in found if p.quantity == "truth_mass"] == pytest.approx(masses)


def test_a_problem_without_usable_truth_has_no_points(model, scorer):
    responses = [RESPONSES[2].__class__(**{**vars(RESPONSES[2]), "solution": ""})]
    assert points(model, scorer, responses, {}, GRADER) == []


def test_elicitations(tokenizer):
    assert ELICITATIONS["ours"] == DEFAULT_ELICITATION
    text = next_turn(tokenizer)
    messages = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "Two."}]
    whole = tokenizer.apply_chat_template(
        [*messages, {"role": "user", "content": "What is the final answer?"}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert whole.split("Two.")[1] + "The final answer is \\boxed" == text
