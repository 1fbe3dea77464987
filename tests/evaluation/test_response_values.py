"""Values of responses against a model that reads every state and answer on its own."""

from dataclasses import replace

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from barl_trl.evaluation.beliefs.response_values import (
    believe,
    response_scorer,
    value_records,
    values_by_timestep,
)
from barl_trl.graders import get_grader
from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.config import BARLConfig

from .. import reference
from ..tiny import tiny_tokenizer
from .files import response

STEP = 8
RESPONSES = [
    response(5, 0, 1, text="One and one: 1 + 1 = 2, thus \\boxed{2}."),
    response(5, 1, 0, text="It is \\boxed{11}."),
    response(5, 2, 0, text="I do not know."),
    response(5, 3, 0, text=""),
]
ANSWERS = ["2", "11"]


def records_of(model, scorer, responses):
    return [*value_records(believe(model, scorer, responses), scorer)]


@pytest.fixture
def scorer(tokenizer):
    args = BARLConfig(bf16=False, step_size=STEP)

    def make(tokenizer=tokenizer):
        return response_scorer(
            tokenizer,
            args,
            grader=get_grader("math_verify"),
            step_segmenter=lambda ids: fixed_size_steps(ids, step_size=STEP),
        )

    return make


def plain_log_likelihoods(model, tokenizer, prompt, text):
    """`[state][hypothesis]`: each answer's mean token log-probability, one forward for each."""
    encode = tokenizer.encode
    chain, rows = encode(text), []
    for end in [0, *range(STEP, len(chain), STEP), *([len(chain)] if chain else [])]:
        state = [*encode(prompt), *chain[:end], *encode(DEFAULT_ELICITATION)]
        rows.append([])
        for answer in ANSWERS:
            ids = encode(f"{{{answer}}}.")
            start = 1 if tokenizer.decode(ids[:1]) == "{" else 0
            with torch.no_grad():
                logps = model(torch.tensor([state + ids])).logits[0].double().log_softmax(-1)
            scored = range(start, len(ids))
            found = [logps[len(state) + n - 1, ids[n]].item() for n in scored]
            rows[-1].append(sum(found) / len(found))
    return rows


def test_values_of_responses_are_those_of_states_and_answers_read_one_by_one(
    model, tokenizer, scorer
):
    records = records_of(model, scorer(), RESPONSES)
    assert len(records) == 4
    for record, one in zip(records, RESPONSES, strict=True):
        ell = plain_log_likelihoods(model, tokenizer, one.prompt, one.response)
        v = one.reward
        assert record["answers"] == ANSWERS
        assert "".join(record["steps"]) == one.response
        assert [record[k] for k in ("problem_id", "sample", "reward")] == [5, one.sample, v]
        for name, expected in (
            ("posterior", reference.posterior(ell, 1.0)),
            ("bayesian_values", reference.bayesian_values(ell, v, 1.0)),
            (
                "posterior_weighted_values",
                reference.posterior_weighted_values(ell, [v, v], 1.0),
            ),
        ):
            torch.testing.assert_close(
                torch.tensor(record[name]), torch.tensor(expected), atol=1e-4, rtol=1e-3
            )
    assert [len(record["steps"]) > 1 for record in records] == [True, True, True, False]


def test_a_problem_without_a_usable_truth_has_no_values(model, scorer):
    responses = [replace(one, solution="\\frac{1") for one in RESPONSES]
    assert records_of(model, scorer(), responses) == []


def test_token_that_begins_a_text_is_not_written_twice(model, scorer):
    beginning = tiny_tokenizer()
    beginning.bos_token = "<|im_start|>"
    bos = beginning.bos_token_id
    beginning.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", bos)]
    )
    written = [replace(one, prompt="<|im_start|>" + one.prompt) for one in RESPONSES]
    with_scorer = scorer(beginning)
    plain, written = (
        [record["posterior"] for record in records_of(model, with_scorer, responses)]
        for responses in (RESPONSES, written)
    )
    assert plain == written


# Means

RECORDS = [
    {"problem_id": 0, "reward": 1.0, "steps": ["a", "b"], "bayesian_values": [1.0, 2.0]},
    {"problem_id": 0, "reward": 0.0, "steps": ["a"], "bayesian_values": [0.0]},
    {"problem_id": 1, "reward": 1.0, "steps": ["a"], "bayesian_values": [3.5]},
    {"problem_id": 1, "reward": 0.0, "steps": [], "bayesian_values": []},
]


def test_means_are_over_responses_of_a_problem_and_then_over_problems():
    records = [r | {"posterior_weighted_values": r["bayesian_values"]} for r in RECORDS]
    rows = {
        (row["responses"], row["timestep"]): (
            row["mean"],
            row["standard_error"],
            row["num_problems"],
            row["num_responses"],
        )
        for row in values_by_timestep(records)
        if row["value"] == "bayesian_values"
    }
    assert rows == {
        ("all", 0): (2.0, pytest.approx(1.5), 2, 3),  # of 0.5 and 3.5
        ("all", 1): (2.0, None, 1, 1),
        ("all", None): (2.125, pytest.approx(1.375), 2, 3),  # of (1.5 + 0) / 2 and 3.5
        ("correct", 0): (2.25, 1.25, 2, 2),
        ("correct", 1): (2.0, None, 1, 1),
        ("correct", None): (2.5, 1.0, 2, 2),
        ("wrong", 0): (0.0, None, 1, 1),
        ("wrong", None): (0.0, None, 1, 1),
    }
