"""The paper as plain loops over Python floats: one rollout, lists indexed [state][hypothesis].
Hypothesis 0 is the truth.
"""

import math


def progress_rewards(ell):
    return [
        [math.exp(ell[t + 1][i]) - math.exp(ell[t][i]) for i in range(len(ell[0]))]
        for t in range(len(ell) - 1)
    ]


def discrepancy(ell):
    r = progress_rewards(ell)
    return [
        [sum(abs(r[u][0] - r[u][i]) for u in range(t)) for i in range(len(ell[0]))]
        for t in range(len(ell))
    ]


def consistency(d, beta):
    if beta == math.inf:
        return 1.0 if d == 0 else 0.0
    return math.exp(-beta * d)


def posterior(ell, beta):
    rows = []
    for ell_t, d_t in zip(ell, discrepancy(ell), strict=True):
        kappa = [consistency(d, beta) for d in d_t]
        weights = [math.exp(e) * k for e, k in zip(ell_t, kappa, strict=True)]
        if sum(weights) == 0:
            weights = kappa
        rows.append([w / sum(weights) for w in weights])
    return rows


def q_values(ell, outcomes):
    """`outcomes[i]`: the outcome reward in hypothesis i."""
    p = [[math.exp(e) for e in row] for row in ell]
    return [[p[-1][i] - p[t][i] + outcomes[i] for i in range(len(p[0]))] for t in range(len(p) - 1)]


def posterior_weighted_values(ell, outcomes, beta):
    w, q = posterior(ell, beta), q_values(ell, outcomes)
    return [sum(w[t][i] * q[t][i] for i in range(len(w[t]))) for t in range(len(q))]


def closing_value(ell, outcomes, beta):
    """Value of ending the turn at the last state: nothing is left of the progress."""
    return sum(w * v for w, v in zip(posterior(ell, beta)[-1], outcomes, strict=True))


def bayesian_values(ell, v, beta):
    """Q(b_t, s_t, a_t) = E over hypotheses by belief b_t of r + Q(b_t+1, ...), behind the last step
    the outcome reward.
    """
    w, r = posterior(ell, beta), progress_rewards(ell)

    def value(t):
        if t == len(r):
            return v
        return sum(w[t][i] * (r[t][i] + value(t + 1)) for i in range(len(r[t])))

    return [value(t) for t in range(len(r))]
