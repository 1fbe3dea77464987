"""Answer log-likelihoods as the definition has them: one unpadded forward per state and answer."""

import math

import pytest
import torch

from barl_trl.plausibility.answer_logps import answer_log_likelihoods

from .cases import ELICITATION


def reduced(logps, reduction):
    if reduction == "token_mean":
        return math.log(sum(map(math.exp, logps)) / len(logps))
    return sum(logps) / (len(logps) if reduction == "mean" else 1)


@torch.no_grad()
def oracle(model, rollouts, reduction="mean", temperature=1.0, elicitation=ELICITATION):
    """{(rollout, state, hypothesis): log-likelihood}, softmax in float64."""
    values = {}
    for b, rollout in enumerate(rollouts):
        own = rollout.state_elicitations
        for s, position in enumerate(rollout.state_positions):
            context = [*rollout.token_ids[:position], *(own[s] if own else elicitation)]
            for h, answer in enumerate(rollout.answers):
                row = [*context, *answer.token_ids]
                logits = model(torch.tensor([row[:-1]])).logits[0].double()
                logps = (logits / temperature).log_softmax(-1)
                picked = [
                    logps[len(context) + j - 1, answer.token_ids[j]].item()
                    for j in range(answer.score_from, len(answer.token_ids))
                ]
                values[b, s, h] = reduced(picked, reduction)
    return values


@torch.no_grad()
def own_oracle(model, rollout, temperature=1.0):
    """Log-probability of each of the rollout's own scored tokens."""
    logits = model(torch.tensor([rollout.token_ids])).logits[0].double() / temperature
    labels = torch.tensor(rollout.token_ids[1:])
    logps = logits[:-1].log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    return logps[rollout.score_from - 1 :].float()


def score(model, rollouts, method="shared_prefix", **options):
    options = {"elicitation_ids": ELICITATION, **options}
    return answer_log_likelihoods(model, rollouts, method=method, **options)


def assert_matches(result, expected, tolerance=1e-4):
    assert result.answer_logps.dtype == torch.float32
    exists = result.state_mask[:, :, None] & result.hypothesis_mask[:, None]
    assert sorted(expected) == [tuple(index) for index in exists.nonzero().tolist()]
    assert not result.answer_logps[~exists].any()
    for index, value in expected.items():
        assert result.answer_logps[index].item() == pytest.approx(value, abs=tolerance)


def assert_own_match(result, expected):
    """Compare the log-probabilities of the rollouts' own tokens; behind them is padding."""
    for logps, values in zip(result.completion_logps, expected, strict=True):
        torch.testing.assert_close(logps[: len(values)], values, atol=1e-4, rtol=0)
        assert not logps[len(values) :].any()


def refusals(caplog):
    """What was said of models that are re-encoded."""
    return [r.getMessage() for r in caplog.records if "cannot share prefixes" in r.getMessage()]
