"""What BARL should do with the given rollouts, in plain loops: one forward per state and
hypothesis, no package code.
"""

import numpy as np
import torch

from .. import reference
from .rollouts import CASES, HYPOTHESES

ELICITATION = "\nBased on the above reasoning, the final answer is \\boxed"


def answer_logp(model, tokenizer, state_ids, answer, reduction="mean", temperature=1.0):
    """Log-likelihood of `{answer}.` behind a state and the elicitation, the lone opening brace
    unscored.
    """
    context = state_ids + tokenizer.encode(ELICITATION)
    answer_ids = tokenizer.encode("{" + answer + "}.")
    forced = int(tokenizer.decode(answer_ids[0]) == "{")
    with torch.no_grad():
        logits = model(torch.tensor([context + answer_ids])).logits[0].double()
    logps = (logits / temperature).log_softmax(-1)
    scored = [
        logps[len(context) + j - 1, answer_ids[j]].item() for j in range(forced, len(answer_ids))
    ]
    return sum(scored) / (len(scored) if reduction == "mean" else 1)


def token_weights(
    model,
    tokenizer,
    prompt,
    completion,
    hypotheses,
    outcome,
    *,
    step_size=8,
    beta=1.0,
    **likelihood,
):
    """Weights of the completion's tokens, its end-of-turn token included, before whitening."""
    prompt_ids, chain = tokenizer.encode(prompt), tokenizer.encode(completion)
    positions = sorted({min(k, len(chain)) for k in range(0, len(chain) + step_size, step_size)})
    ell = [
        [answer_logp(model, tokenizer, prompt_ids + chain[:p], y, **likelihood) for y in hypotheses]
        for p in positions
    ]
    outcomes = outcome if isinstance(outcome, list) else [outcome] * len(hypotheses)
    values = reference.posterior_weighted_values(ell, outcomes, beta)
    closing = reference.closing_value(ell, outcomes, beta)
    return [values[k // step_size] for k in range(len(chain))] + [closing]


def weights(model, tokenizer, **kwargs):
    """Token weights of the given rollouts, in their order, before whitening."""
    return [
        token_weights(model, tokenizer, prompt, completion, HYPOTHESES[prompt], outcome, **kwargs)
        for prompt, completion, outcome in CASES
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
