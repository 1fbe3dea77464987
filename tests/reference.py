"""The paper as plain loops over Python floats: one rollout, lists indexed [state][hypothesis].
Hypothesis 0 is the truth.
"""

import math
from typing import NamedTuple

import numpy as np


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


def task_weights(prior, observed):
    """Prior weights times likelihoods at every state. An observation that no hypothesis allows is
    left out.
    """
    rows = [prior]
    for logps in observed:
        row = [w * math.exp(e) for w, e in zip(rows[-1], logps, strict=True)]
        rows.append(row if any(row) else rows[-1])
    return rows


def task_posterior(prior, observed, rewards, beta, ell=None):
    """`rewards[t][i]`: what hypothesis i predicts for step t; hypothesis 0 the observed ones. With
    `ell`, what the model found likely before the first step is a second prior.
    """
    beliefs = []
    for t, weights in enumerate(task_weights(prior, observed)):
        gaps = [
            sum(abs(rewards[u][0] - rewards[u][i]) for u in range(t)) for i in range(len(prior))
        ]
        kept = [w * consistency(d, beta) for w, d in zip(weights, gaps, strict=True)]
        kept = kept if any(kept) else weights
        found = (
            kept if ell is None else [w * math.exp(e) for w, e in zip(kept, ell[0], strict=True)]
        )
        found = found if any(found) else kept
        beliefs.append([w / sum(found) for w in found])
    return beliefs


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


# Credit: what `barl_trl.credit` computes of a batch, a list of `Rollout`. Each gets T + 1 values:
# those of its steps, and last that of ending its turn. They mean nothing where it is not judged.


class Rollout(NamedTuple):
    """A rollout; those of one prompt have its number as `group`."""

    group: int
    logps: list
    outcome: float = 0.0
    is_judged: bool = True
    is_cut_off: bool = False
    member: int | None = None
    cost: float = 0.0
    turn_rewards: tuple = ()
    states: tuple = ()
    beta: float = 1.0

    @property
    def belief(self):
        return posterior(self.logps, self.beta)

    @property
    def plausibilities(self):
        """Of the truth."""
        return [math.exp(row[0]) for row in self.logps]

    @property
    def log_plausibilities(self):
        """Of the truth, from -100 nats on."""
        return [max(row[0], -100) for row in self.logps]


def progress_in(r, space):
    return {"probability": r.plausibilities, "log": r.log_plausibilities}[space]


def of_group(r, rollouts):
    return [other for other in rollouts if other.group == r.group and other.is_judged]


def mean(numbers):
    return sum(numbers) / len(numbers) if numbers else 0.0


def standardized(number, numbers):
    """Over the standard deviation of a sample, and 1e-4."""
    deviations = [(x - mean(numbers)) ** 2 for x in numbers]
    std = math.sqrt(sum(deviations) / (len(numbers) - 1)) if len(numbers) > 1 else 0.0
    return (number - mean(numbers)) / (std + 1e-4)


def barl(rollouts, outcome_mode="ground_truth"):
    values = []
    for r in rollouts:
        v = [r.outcome] * len(r.logps[0])
        if outcome_mode == "hypothesis":
            v[1:] = [float(i == r.member) for i in range(1, len(v))]
        steps = posterior_weighted_values(r.logps, v, 1.0)
        values.append([*steps, closing_value(r.logps, v, 1.0)])
    return values


def progress(rollouts, progress_space="probability"):
    p = [progress_in(r, progress_space) for r in rollouts]
    return [[p[-1] - p_t + r.outcome for p_t in p] for p, r in zip(p, rollouts, strict=True)]


def outcome(rollouts):
    return [[r.outcome] * len(r.logps) for r in rollouts]


def grpo(rollouts):
    return [
        [standardized(r.outcome, [o.outcome for o in of_group(r, rollouts)])] * len(r.logps)
        for r in rollouts
    ]


def advantages(critic, end, gae_lambda):
    """Every term of the sum, for every t from 0 to T."""
    last = len(critic) - 1
    return [
        sum(gae_lambda ** (k - t) * (critic[k + 1] - critic[k]) for k in range(t, last))
        + gae_lambda ** (last - t) * (end - critic[last])
        for t in range(last + 1)
    ]


def gae(rollouts, gae_lambda=1.0):
    return [advantages(r.plausibilities, r.outcome, gae_lambda) for r in rollouts]


def gae_posterior(rollouts, gae_lambda=1.0):
    return [advantages([row[0] for row in r.belief], r.outcome, gae_lambda) for r in rollouts]


def fitted_critic(rollouts):
    """Ridge regression with a free intercept: its slope is that of centred numbers."""
    critics = []
    for r in rollouts:
        others = [o for o in rollouts if o.group != r.group and o.is_judged]
        seen = [(p, o.outcome) for o in others for p in o.plausibilities]
        mean_p, mean_v = mean([p for p, _ in seen]), mean([v for _, v in seen])
        covariance = sum((p - mean_p) * (v - mean_v) for p, v in seen)
        slope = covariance / (sum((p - mean_p) ** 2 for p, _ in seen) + 1.0)
        critics.append([mean_v + slope * (p - mean_p) for p in r.plausibilities])
    return critics


def belief_critic(rollouts, gae_lambda=1.0, bootstrap_cut_off=False):
    values = []
    for r, critic in zip(rollouts, fitted_critic(rollouts), strict=True):
        is_unfinished = bootstrap_cut_off and r.is_cut_off
        values.append(advantages(critic, critic[-1] if is_unfinished else r.outcome, gae_lambda))
    return values


def entropy(belief):
    share = -sum(b * math.log(b) for b in belief if b > 0)
    return share / math.log(max(len(belief), 2))


def expected_outcome(r):
    verdicts = [float(r.member == i) for i in range(len(r.logps[0]))]
    return sum(b * v for b, v in zip(r.belief[-1], verdicts, strict=True)) + r.cost


def bayes(rollouts, information_weight=1.0):
    values = []
    for r in rollouts:
        end, expected = entropy(r.belief[-1]), expected_outcome(r)
        gained = [information_weight * (entropy(belief) - end) for belief in r.belief[:-1]]
        values.append([*(expected + gain for gain in gained), expected])
    return values


def information_gain(rollouts, progress_space="probability", gain_normalization="joint"):
    def rewards(r):
        p = progress_in(r, progress_space)
        gains = [p[t + 1] - p[t] for t in range(len(p) - 1)]
        return [*gains[:-1], r.outcome]

    def scale(xs, pooled):
        std = math.sqrt(mean([(x - mean(pooled)) ** 2 for x in pooled]) + 1e-8)
        return [(x - mean(pooled)) / (std + 1e-6) for x in xs]

    values = []
    for r in rollouts:
        group = [rewards(other) for other in of_group(r, rollouts)]
        if gain_normalization == "joint":
            scaled = scale(rewards(r), [x for xs in group for x in xs])
        else:
            scaled = scale(rewards(r)[:-1], [x for xs in group for x in xs[:-1]])
            scaled += scale(rewards(r)[-1:], [x for xs in group for x in xs[-1:]])
        values.append([*(sum(scaled[t:]) for t in range(len(r.logps) - 1)), scaled[-1]])
    return values


def delta_belief(rollouts):
    def rewards(r):
        b, last = r.log_plausibilities, len(r.logps) - 2
        gains = [max(0, b[t + 1] - b[t]) if t < last else 0 for t in range(last + 1)]
        return [r.outcome + 0.1 * gain for gain in gains]

    values = []
    for r in rollouts:
        group = [(o.outcome, rewards(o)) for o in of_group(r, rollouts)]
        steps = [
            standardized(x, [others[t] for _, others in group if t < len(others)])
            for t, x in enumerate(rewards(r))
        ]
        values.append([*steps, standardized(r.outcome, [v for v, _ in group])])
    return values


def rlpr(rollouts):
    def gained(r):
        return min(max(r.plausibilities[-1] - r.plausibilities[0], 0), 1)

    return [
        [standardized(gained(r), [gained(o) for o in of_group(r, rollouts)])] * len(r.logps)
        for r in rollouts
    ]


def likelihood(rollouts):
    return [[r.log_plausibilities[-1]] * len(r.logps) for r in rollouts]


def discounted(rewards, gamma):
    return sum(gamma**k * r for k, r in enumerate(rewards))


def turns(rollouts, turn_return="to_go", turn_gamma=1.0, gae_lambda=0.95):
    rollouts, values = [*map(with_wordless_turn, rollouts)], []
    for r in rollouts:
        rewards = r.turn_rewards
        if turn_return == "own":
            values.append([*(x + r.outcome for x in rewards), r.outcome])
        elif turn_return == "to_go":
            sums = [discounted(rewards[t:], turn_gamma) for t in range(len(rewards))]
            values.append([*(x + r.outcome for x in sums), r.outcome])
        else:
            critic = turn_critic(r, rollouts, turn_gamma)
            deltas = [x + turn_gamma * critic[t + 1] - critic[t] for t, x in enumerate(rewards)] + [
                r.outcome - critic[-1]
            ]
            decay = turn_gamma * gae_lambda
            values.append([discounted(deltas[t:], decay) for t in range(len(deltas))])
        if any(o.turn_rewards for o in rollouts) and rewards:
            values[-1][-1] = values[-1][-2]  # what ends a turn is a part of it
    return values


def with_wordless_turn(r):
    """The reward of a turn without words, which has no step, comes with the outcome."""
    if len(r.logps) > 1 or not r.turn_rewards:
        return r
    return r._replace(outcome=r.outcome + r.turn_rewards[0], turn_rewards=())


def turn_critic(r, rollouts, gamma):
    """Ridge regression of the returns of other prompts on features of states, by its equations."""
    most = max([len(o.logps) - 1 for o in rollouts if o.is_judged], default=0)

    def features(o, t):
        used = t / max(most, 1)
        known = [used, used**2, sum(o.turn_rewards[:t])]
        if max(len(o.logps[0]) for o in rollouts) > 1:
            known += [entropy(o.belief[t]), max(o.belief[t])]
        return known

    others = [o for o in rollouts if o.group != r.group and o.is_judged]
    seen = [(o, t) for o in others for t in range(len(o.logps))]
    if not seen:
        return [0.0] * len(r.logps)
    x = np.array([features(o, t) for o, t in seen])
    y = np.array([discounted([*o.turn_rewards[t:], o.outcome], gamma) for o, t in seen])
    centred = x - x.mean(axis=0)
    normal = centred.T @ centred + np.eye(x.shape[1])
    slopes = np.linalg.solve(normal, centred.T @ (y - y.mean()))
    own = np.array([features(r, t) for t in range(len(r.logps))])
    return [float(v) for v in y.mean() + (own - x.mean(axis=0)) @ slopes]


def fitted_to_belief(values, rollouts, i, t):
    """Ridge on the values of other prompts, with a row for each penalty; None without any."""

    def features(r, t):
        known = [entropy(r.belief[t]), max(r.belief[t]), t / 10]
        return [*known, *(x * x for x in known), known[0] * known[2], known[1] * known[2]]

    others = [j for j, r in enumerate(rollouts) if r.is_judged and r.group != rollouts[i].group]
    seen = [(features(rollouts[j], s), x) for j in others for s, x in enumerate(values[j])]
    if not seen:
        return None
    x, y = (np.array(column, dtype=float) for column in zip(*seen, strict=True))
    rows = np.vstack([x - x.mean(axis=0), np.eye(x.shape[1])])
    slopes = np.linalg.lstsq(rows, np.append(y - y.mean(), [0.0] * x.shape[1]), rcond=None)[0]
    return float(y.mean() + (features(rollouts[i], t) - x.mean(axis=0)) @ slopes)


def subtract_baseline(values, rollouts, baseline):
    judged = [i for i, r in enumerate(rollouts) if r.is_judged]

    def of_rollout(i):
        return mean(values[i][:-1] or values[i])

    def subtracted(i, t):
        group = [j for j in judged if rollouts[j].group == rollouts[i].group]
        others = [j for j in group if j != i]
        if baseline in ("step", "state", "belief"):  # the end might have gone on with its step
            t = min(t, max(0, len(values[i]) - 2))
        if baseline == "belief":
            fitted = fitted_to_belief(values, rollouts, i, t)
            return mean([of_rollout(j) for j in others]) if fitted is None else fitted
        have_step = [j for j in others if t < max(1, len(values[j]) - 1)]
        same_state = [
            values[j][k]
            for j in others
            for k, state in enumerate(rollouts[j].states)
            if rollouts[i].states[t : t + 1] == (state,)
        ]
        return {
            "none": 0.0,
            "batch": mean([of_rollout(j) for j in judged]),
            "group": mean([of_rollout(j) for j in group]),
            "leave_one_out": mean([of_rollout(j) for j in others]),
            "step": mean([values[j][t] for j in have_step] or [of_rollout(j) for j in others]),
            "state": mean(same_state or [of_rollout(j) for j in others]),
        }[baseline]

    return [
        [x - subtracted(i, t) if i in judged else 0.0 for t, x in enumerate(row)]
        for i, row in enumerate(values)
    ]
