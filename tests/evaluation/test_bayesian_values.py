"""The Bayesian value against the paper's recursion in plain loops, and both values of responses
against a model that reads every state and answer on its own.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from barl_trl import BARLConfig
from barl_trl.elicitation import DEFAULT_ELICITATION
from barl_trl.evaluation.bayesian_values import (
    bayesian_values,
    response_scorer,
    response_values,
    values_by_timestep,
)
from barl_trl.graders import get_grader
from barl_trl.posterior import posterior_weighted_values
from barl_trl.steps import fixed_size_steps

from .. import reference
from ..test_posterior import BETAS, check, padded, rollout
from ..tiny import tiny_tokenizer
from .files import response


@settings(max_examples=100, deadline=None)
@given(
    st.lists(rollout(), min_size=1, max_size=4),
    BETAS,
    st.lists(st.floats(-1, 2), min_size=4, max_size=4),
)
def test_equals_the_recursion_in_plain_loops(rollouts, beta, outcomes):
    ell, masks = padded(rollouts, fill=-3.3)
    v = torch.tensor(outcomes[: len(rollouts)], dtype=torch.float64)
    check(
        bayesian_values(ell, v, beta=beta, **masks),
        [reference.bayesian_values(r, o, beta) for r, o in zip(rollouts, outcomes, strict=False)],
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(rollout(), min_size=2, max_size=4), BETAS)
def test_a_rollout_does_not_depend_on_its_neighbours(rollouts, beta):
    ell, masks = padded(rollouts, fill=float("nan"))
    together = bayesian_values(ell, torch.ones(len(rollouts)).double(), beta=beta, **masks)
    for b, r in enumerate(rollouts):
        ell, masks = padded([r])
        alone = bayesian_values(ell, torch.ones(1).double(), beta=beta, **masks)
        torch.testing.assert_close(together[b : b + 1, : len(r) - 1], alone)


P = torch.tensor([[[0.2, 0.6, 0.1], [0.5, 0.3, 0.1], [0.9, 0.05, 0.1]]])
ONE = torch.tensor([1.0])


@pytest.mark.parametrize("beta", [0.0, 1.0, math.inf])
def test_with_one_hypothesis_it_is_the_progress_return_as_the_training_value_is(beta):
    values = bayesian_values(P[..., :1].log(), ONE, beta=beta)
    torch.testing.assert_close(values, torch.tensor([[0.9 - 0.2 + 1, 0.9 - 0.5 + 1]]))
    training_values = posterior_weighted_values(P[..., :1].log(), ONE, beta=beta)
    torch.testing.assert_close(values, training_values)


def test_in_the_last_step_no_belief_is_left_to_change_it_is_the_training_value():
    values = bayesian_values(P.log(), ONE, beta=1.0)
    training_values = posterior_weighted_values(P.log(), ONE, beta=1.0)
    torch.testing.assert_close(values[:, -1], training_values[:, -1])
    assert (values[:, 0] - training_values[:, 0]).abs() > 0.1  # the belief at 0 is frozen there


def test_beta_zero_weighs_each_step_by_the_plausibilities_at_its_own_state():
    w = P / P.sum(dim=-1, keepdim=True)
    first, second = ((w[0, t] * (P[0, t + 1] - P[0, t])).sum() for t in range(2))
    expected = torch.stack([first + second + 1, second + 1])[None]
    torch.testing.assert_close(bayesian_values(P.log(), ONE, beta=0.0), expected)


def test_beta_inf_leaves_the_truth_alone_once_the_others_disagreed():
    values = bayesian_values(P.log(), ONE, beta=math.inf)
    first = (P[0, 0] / P[0, 0].sum() * (P[0, 1] - P[0, 0])).sum()
    expected = torch.stack([first + 0.9 - 0.5 + 1, torch.tensor(0.9 - 0.5 + 1)])[None]
    torch.testing.assert_close(values, expected)


def test_a_chain_that_moves_nothing_is_worth_its_outcome():
    still = P[:, :1].expand(-1, 4, -1).log()
    torch.testing.assert_close(bayesian_values(still, ONE, beta=1.0), torch.ones(1, 3))


def test_an_empty_chain_has_no_values_and_none_carries_a_gradient():
    ell = P.log().requires_grad_()
    assert bayesian_values(ell[:, :1], ONE, beta=1.0).shape == (1, 0)
    assert not bayesian_values(ell, ONE, beta=1.0).requires_grad


# Responses

STEP = 8
RESPONSES = [
    response(5, 0, 1, text="One and one: 1 + 1 = 2, thus \\boxed{2}."),
    response(5, 1, 0, text="It is \\boxed{11}."),
    response(5, 2, 0, text="I do not know."),
    response(5, 3, 0, text=""),
]
ANSWERS = ["2", "11"]


@pytest.fixture
def scorer(tokenizer, tmp_path):
    args = BARLConfig(output_dir=str(tmp_path), bf16=False, step_size=STEP)

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
    records = list(response_values(model, scorer(), RESPONSES))
    assert len(records) == 4
    for record, one in zip(records, RESPONSES, strict=True):
        ell = plain_log_likelihoods(model, tokenizer, one["prompt"], one["response"])
        v = one["reward"]
        assert record["answers"] == ANSWERS
        assert "".join(record["steps"]) == one["response"]
        assert [record[k] for k in ("problem_id", "sample", "reward")] == [5, one["sample"], v]
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
    responses = [one | {"solution": "\\frac{1"} for one in RESPONSES]
    assert list(response_values(model, scorer(), responses)) == []


def test_token_that_begins_a_text_is_not_written_twice(model, scorer):
    beginning = tiny_tokenizer()
    beginning.bos_token = "<|im_start|>"
    bos = beginning.bos_token_id
    beginning.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", bos)]
    )
    written = [one | {"prompt": "<|im_start|>" + one["prompt"]} for one in RESPONSES]
    with_scorer = scorer(beginning)
    plain, written = (
        [record["posterior"] for record in response_values(model, with_scorer, responses)]
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
