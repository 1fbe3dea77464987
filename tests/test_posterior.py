"""spec.md section 2, equation by equation, against `reference.py`, and its properties and limits by
name.
"""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from barl_trl.posterior import (
    discrepancy,
    posterior,
    posterior_weighted_values,
    progress_rewards,
    q_values,
    task_belief,
    values_under,
)

from . import reference

LOGPS = st.floats(-30, 0) | st.just(-math.inf)
BETAS = st.sampled_from([0.0, 0.5, 1.0, 7.0, math.inf])


@st.composite
def rollout(draw, logps=LOGPS, min_steps=0):
    states, hypotheses = draw(st.integers(min_steps + 1, 6)), draw(st.integers(1, 5))
    return [[draw(logps) for _ in range(hypotheses)] for _ in range(states)]


def padded(rollouts, fill=0.0, dtype=torch.float64):
    """Rollouts of different sizes -> `answer_logps`, `state_mask`, `hypothesis_mask`."""
    shape = len(rollouts), max(map(len, rollouts)), max(len(r[0]) for r in rollouts)
    ell = torch.full(shape, fill, dtype=dtype)
    states, hypotheses = (torch.zeros(shape[0], n, dtype=bool) for n in shape[1:])
    for b, r in enumerate(rollouts):
        ell[b, : len(r), : len(r[0])] = torch.tensor(r, dtype=dtype)
        states[b, : len(r)], hypotheses[b, : len(r[0])] = True, True
    return ell, {"state_mask": states, "hypothesis_mask": hypotheses}


def check(got, expected):
    """`got[b]` equals the nested list `expected[b]` in its corner and is 0 in the padding."""
    for row, want in zip(got, expected, strict=True):
        want = torch.tensor(want, dtype=torch.float64).reshape(len(want), -1 if want else 0)
        row = row.unsqueeze(-1) if row.dim() == 1 else row
        corner = tuple(slice(n) for n in want.shape)
        torch.testing.assert_close(row[corner], want, rtol=1e-9, atol=1e-9, check_dtype=False)
        rest = row.clone()
        rest[corner] = 0
        assert not rest.any()


@settings(max_examples=150)
@given(
    st.lists(rollout(), min_size=1, max_size=4),
    BETAS,
    st.lists(st.floats(-1, 2), min_size=20, max_size=20),
)
def test_every_equation_equals_the_plain_loops(rollouts, beta, numbers):
    ell, masks = padded(rollouts, fill=-3.3)
    states = {"state_mask": masks["state_mask"]}
    v = torch.tensor(numbers[: len(rollouts)], dtype=torch.float64)
    of_each = torch.tensor(numbers, dtype=torch.float64).reshape(4, 5)
    of_each = of_each[: len(rollouts), : ell.shape[2]]
    same = [[v_b] * len(r[0]) for v_b, r in zip(v.tolist(), rollouts, strict=True)]
    exists = masks["hypothesis_mask"][:, None]
    check(progress_rewards(ell, **states) * exists, map(reference.progress_rewards, rollouts))
    check(discrepancy(ell, **states) * exists, map(reference.discrepancy, rollouts))
    check(posterior(ell, beta=beta, **masks), [reference.posterior(r, beta) for r in rollouts])
    check(q_values(ell, v, **states) * exists, map(reference.q_values, rollouts, same))
    values = partial(reference.posterior_weighted_values, beta=beta)
    check(posterior_weighted_values(ell, v, beta=beta, **masks), map(values, rollouts, same))
    found = posterior_weighted_values(ell, of_each, beta=beta, outcome="hypothesis", **masks)
    check(found, map(values, rollouts, of_each.tolist()))


@settings(max_examples=100)
@given(rollout(), BETAS)
def test_posterior_rows_sum_to_one_and_discrepancies_start_at_zero(r, beta):
    ell, masks = padded([r])
    sums = posterior(ell, beta=beta, **masks).sum(-1)
    torch.testing.assert_close(sums, torch.ones(1, len(r)).double())
    d = discrepancy(ell)
    assert not d[:, 0].any() and not d[..., 0].any()
    assert (progress_rewards(ell).abs() <= 1).all()


@given(rollout(logps=st.sampled_from([-math.inf, -3e38, -1e4, -1e-30, 0.0, 50.0, 3e38])), BETAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_finite_on_every_finite_or_minus_inf_input(dtype, r, beta):
    ell = torch.tensor([r]).to(torch.float32).clamp(min=-math.inf).to(dtype)
    ell = torch.where(ell == math.inf, torch.finfo(dtype).max, ell)
    values = posterior_weighted_values(ell, torch.ones(1, dtype=dtype), beta=beta)
    assert values.dtype == torch.float32
    assert values.isfinite().all() and posterior(ell, beta=beta).isfinite().all()


@given(rollout(min_steps=1), BETAS, st.randoms())
def test_order_of_the_wrong_hypotheses_is_irrelevant(r, beta, random):
    order = list(range(1, len(r[0])))
    random.shuffle(order)
    ell = torch.tensor([r], dtype=torch.float64)
    v = torch.ones(1, dtype=torch.float64)
    found, expected = (
        posterior_weighted_values(one, v, beta=beta) for one in (ell[..., [0, *order]], ell)
    )
    torch.testing.assert_close(found, expected)


@given(st.lists(rollout(), min_size=2, max_size=4), BETAS)
def test_a_rollout_does_not_depend_on_its_neighbours(rollouts, beta):
    ell, masks = padded(rollouts, fill=float("nan"))
    ones = torch.ones(len(rollouts)).double()
    together = posterior_weighted_values(ell, ones, beta=beta, **masks)
    for b, r in enumerate(rollouts):
        ell, masks = padded([r])
        alone = posterior_weighted_values(ell, torch.ones(1).double(), beta=beta, **masks)
        torch.testing.assert_close(together[b : b + 1, : len(r) - 1], alone)


def test_beta_inf_keeps_only_hypotheses_that_never_disagreed():
    # hypothesis 1 moved just like the truth, 2 did not
    p = torch.tensor([[[0.2, 0.2, 0.6], [0.5, 0.5, 0.1]]])
    left = posterior(p.log(), beta=math.inf)[0, 1]
    torch.testing.assert_close(left, torch.tensor([0.5, 0.5, 0.0]))


def test_impossible_answers_get_no_weight_and_a_posterior_without_mass_falls_back_to_consistency():
    inf = math.inf
    ell = torch.tensor([[[-1.0, -inf], [-inf, -inf]]])
    torch.testing.assert_close(posterior(ell, beta=0.0), torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]))
    torch.testing.assert_close(posterior(ell, beta=inf)[0, 1], torch.tensor([1.0, 0.0]))


def test_an_empty_completion_has_no_values_and_those_of_others_change_nothing():
    assert posterior_weighted_values(torch.zeros(2, 1, 3), torch.ones(2), beta=1.0).shape == (2, 0)
    ell, mask = torch.randn(2, 3, 2).requires_grad_(), torch.tensor([[True, True, False]] * 2)
    before = ell.detach().clone()
    found = posterior_weighted_values(ell, torch.ones(2), beta=math.inf, state_mask=mask)
    assert torch.equal(ell, before) and not found.requires_grad


def test_what_is_missing_or_out_of_range_is_refused():
    for beta in (-1.0, math.nan):
        with pytest.raises(ValueError, match=r"beta must be in \[0, inf\], got"):
            posterior(torch.zeros(1, 2, 2), beta=beta)
    for outcome in ("hypothesis", "truth"):
        with pytest.raises(ValueError, match="outcome_rewards must have shape"):
            q_values(torch.zeros(2, 2, 3), torch.ones(2), outcome=outcome)
    for call in (discrepancy, lambda ell: q_values(ell, torch.ones(1))):
        with pytest.raises(ValueError, match="answer_logps must be given without rewards"):
            call(None)


@st.composite
def task(draw):
    """A prior, log-likelihoods of observations and predicted rewards of a rollout."""
    steps, hypotheses = draw(st.integers(0, 4)), draw(st.integers(1, 4))

    def rows(number):
        return [[draw(number) for _ in range(hypotheses)] for _ in range(steps)]

    likelihoods = rows(st.sampled_from([0.0, -math.inf]) | st.floats(-5, 2))
    prior = [draw(st.floats(0.1, 3.0)) for _ in range(hypotheses)]
    return prior, likelihoods, rows(st.sampled_from([0.0, 1.0, -0.5])), draw(rollout())


@settings(max_examples=150)
@given(task(), BETAS, st.booleans())
def test_the_tasks_belief_equals_the_plain_loops(drawn, beta, is_plausible):
    """With and without the model's own plausibilities."""
    prior, observed, rewards, _ = drawn
    steps, hypotheses = len(observed), len(prior)
    ell = [[-0.5 * i - 0.1 * t for i in range(hypotheses)] for t in range(steps + 1)]
    shape = 1, steps, hypotheses
    found = posterior(
        torch.tensor([ell], dtype=torch.float64) if is_plausible else None,
        beta=beta,
        rewards=torch.tensor([rewards], dtype=torch.float64).reshape(shape),
        log_prior=torch.tensor([prior], dtype=torch.float64).log(),
        observation_logps=torch.tensor([observed], dtype=torch.float64).reshape(shape),
    )
    own = ell if is_plausible else None
    check(found, [reference.task_posterior(prior, observed, rewards, beta, own)])


def test_an_observation_that_nothing_allows_is_left_out_and_told():
    observed = torch.tensor([[[0.0, -math.inf], [-math.inf, 0.0], [-1.0, 0.0]]])
    weights, is_contradicted = task_belief(torch.zeros(1, 2), observed)
    assert weights[0].tolist() == [[0, 0], [0, -math.inf], [0, -math.inf], [-1, -math.inf]]
    assert is_contradicted.tolist() == [[False, True, False]]


def test_hypotheses_that_are_ruled_out_stay_out_and_padding_stays_0():
    prior, observed = torch.zeros(2, 3), torch.zeros(2, 2, 3)
    observed[0, 0, 1] = -math.inf
    states = torch.tensor([[True, True, True], [True, False, False]])
    exists = torch.tensor([[True, True, True], [True, True, False]])
    masks = {"state_mask": states, "hypothesis_mask": exists}
    belief = posterior(None, beta=1.0, log_prior=prior, observation_logps=observed, **masks)
    third = pytest.approx(1 / 3)
    assert belief[0].tolist() == [[third] * 3, [0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]
    assert belief[1].tolist() == [[0.5, 0.5, 0.0], [0.0] * 3, [0.0] * 3]


def test_a_consistency_that_leaves_only_a_truth_that_was_ruled_out_says_nothing():
    rewards = torch.tensor([[[1.0, 0.0]]])
    observed = torch.tensor([[[-math.inf, 0.0]]])
    belief = posterior(None, beta=math.inf, rewards=rewards, observation_logps=observed)
    assert belief[0].tolist() == [[0.5, 0.5], [0.0, 1.0]]


@settings(max_examples=100)
@given(rollout(), BETAS)
def test_the_progress_rewards_are_the_default_of_predicted_rewards(r, beta):
    """Eq. (def_r): the sum of rewards telescopes, and the same consistency follows."""
    ell = torch.tensor([r], dtype=torch.float64)
    v, rewards = torch.ones(1, dtype=torch.float64), progress_rewards(ell)
    torch.testing.assert_close(q_values(ell, v), q_values(None, v, rewards=rewards))
    given_rewards = posterior(ell, beta=beta, rewards=rewards)
    torch.testing.assert_close(posterior(ell, beta=beta), given_rewards)


@st.composite
def eliminations(draw):
    """A game in which each step rules some of the hypotheses out that are left, never the truth."""
    hypotheses = draw(st.integers(1, 6))
    left = set(range(hypotheses))
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        out = {i for i in left if i and draw(st.booleans())}
        left -= out
        steps.append([-math.inf if i in out else 0.0 for i in range(hypotheses)])
    return steps


@settings(max_examples=100)
@given(eliminations(), st.floats(-1, 2))
def test_the_papers_value_is_the_outcome_in_a_game_of_elimination(observed, v):
    """The sum of w_i(t) (p_i(T) - p_i(t)) with p_i = w_i is 1 / |C_t| - 1 / |C_t|."""
    observed = torch.tensor([observed], dtype=torch.float64)
    belief = posterior(None, beta=1.0, observation_logps=observed)
    outcome = torch.tensor([v], dtype=torch.float64)
    values = values_under(belief, belief.log(), outcome)
    torch.testing.assert_close(values.steps, outcome.expand(1, observed.shape[1]))
    torch.testing.assert_close(values.closing, outcome)
