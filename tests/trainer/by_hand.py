"""What BARL should do with the given rollouts, in plain loops: one forward per state and
hypothesis, no package code.
"""

import math

import numpy as np
import torch

from .. import reference
from .rollouts import CASES, COMPLETIONS, HYPOTHESES, MEMBERS

ELICITATION = "\nBased on the above reasoning, the final answer is \\boxed"


def answer_logp(
    model, tokenizer, state_ids, answer, reduction="mean", temperature=1.0, elicitation=ELICITATION
):
    """Log-likelihood of `{answer}.` behind a state and the elicitation, the lone opening brace
    unscored.
    """
    context = state_ids + tokenizer.encode(elicitation)
    answer_ids = tokenizer.encode("{" + answer + "}.")
    forced = int(tokenizer.decode(answer_ids[0]) == "{")
    with torch.no_grad():
        logits = model(torch.tensor([context + answer_ids])).logits[0].double()
    logps = (logits / temperature).log_softmax(-1)
    own = range(forced, len(answer_ids))
    scored = [logps[len(context) + j - 1, answer_ids[j]].item() for j in own]
    if reduction == "token_mean":
        return math.log(sum(map(math.exp, scored)) / len(scored))
    return sum(scored) / (len(scored) if reduction == "mean" else 1)


def answer_logps(model, tokenizer, prompt, completion, hypotheses, **likelihood):
    """Of each hypothesis, at each state: behind every eighth token."""
    prompt_ids, chain = tokenizer.encode(prompt), tokenizer.encode(completion)
    positions = sorted({min(k, len(chain)) for k in range(0, len(chain) + 8, 8)})
    return [
        [answer_logp(model, tokenizer, prompt_ids + chain[:p], y, **likelihood) for y in hypotheses]
        for p in positions
    ]


def over_tokens(tokenizer, completion, values):
    """Each token's value, given those of the steps, and last that of the end-of-turn token."""
    return [values[k // 8] for k in range(len(tokenizer.encode(completion)))] + values[-1:]


def weights(model, tokenizer, *, outcomes=None, beta=1.0, **likelihood):
    """Token weights of the given rollouts, in their order, before whitening."""
    rows = []
    for n, one in enumerate(scored_rollouts(model, tokenizer, **likelihood)):
        of_each = [one.outcome if outcomes is None else outcomes[n]] * len(one.logps[0])
        values = reference.posterior_weighted_values(one.logps, of_each, beta)
        closing = reference.closing_value(one.logps, of_each, beta)
        rows.append(over_tokens(tokenizer, CASES[n][1], [*values, closing]))
    return rows


def scored_rollouts(model, tokenizer, *, cut_off=(), **likelihood):
    """The given rollouts, as estimators of credit see them."""
    members = [member for prompt in COMPLETIONS for member in MEMBERS[prompt]]
    return [
        reference.Rollout(
            group=list(COMPLETIONS).index(prompt),
            logps=answer_logps(model, tokenizer, prompt, text, HYPOTHESES[prompt], **likelihood),
            outcome=outcome,
            is_cut_off=text in cut_off,
            member=member,
        )
        for (prompt, text, outcome), member in zip(CASES, members, strict=True)
    ]


def assert_equal(got, expected, atol=1e-5):
    for row, want in zip(got, expected, strict=True):
        np.testing.assert_allclose(row, want, atol=atol)


def completion_logps(model, tokenizer, prompt, completion):
    """Log-probabilities of the completion and its end-of-turn token, with gradient."""
    prompt_ids = tokenizer.encode(prompt)
    ids = torch.tensor([prompt_ids + tokenizer.encode(completion) + [tokenizer.eos_token_id]])
    logps = model(ids).logits[0, :-1].log_softmax(-1)
    return logps.gather(1, ids[0, 1:, None])[len(prompt_ids) - 1 :, 0]
