"""The numbers that the page shows of rollouts: beliefs, values, weights, and other credits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import entr
from torch.nn.utils.rnn import pad_sequence

from ...credit import CREDITS
from ...credit.barl import hypothesis_outcomes
from ...credit.rollouts import ScoredRollouts
from ...credit.token_weights import weigh_steps, whitened_tokens
from ...posterior import StepValues, q_values

Records = Sequence[Mapping[str, Any]]

_TOLERANCE = 1e-3
"""Most by which a computed value may miss the recorded one, relative to it where it exceeds 1."""


class Derived(NamedTuple):
    """Numbers of a rollout with T steps, T + 1 states and H hypotheses.

    `p`, `w` and `entropy` are None if the rollout was not scored. `q`, `v` and `values` are None if
    it was not scored, or has no outcome.
    """

    p: np.ndarray | None
    """Plausibilities, (T + 1, H)."""
    w: np.ndarray | None
    """Posterior, (T + 1, H)."""
    q: np.ndarray | None
    """Values under each hypothesis, (T, H)."""
    v: np.ndarray | None
    """Outcome reward under each hypothesis, (H)."""
    values: np.ndarray | None
    """Posterior-weighted value of each step, (T), eq. (adv_algo)."""
    entropy: np.ndarray | None
    """Entropy of the posterior as a share of log H, (T + 1); 0 for one hypothesis."""
    weights: np.ndarray
    """Weight of each step in the policy gradient, (T)."""
    methods: dict[str, np.ndarray]
    """Value of each step under every credit that can be computed, (T)."""
    difference: float | None
    """Largest difference of a recorded step value from that computed for the run's credit.

    None if all are equal, or cannot be computed.
    """


def derive(records: Records, metadata: Mapping[str, Any]) -> list[Derived]:
    """Compute what the page shows of the rollouts of one batch.

    The weights are the recorded ones. If no record has weights, the recorded step values are
    standardised over the tokens of the batch, as training does by default.

    Args:
        records: All records of a file, at least one.
        metadata: Metadata of the file. The values follow from its `settings`.

    Returns:
        The numbers of each rollout.
    """
    settings = metadata.get("settings", {})
    rollouts = _scored_rollouts(records)
    methods = _method_values(rollouts, settings)
    plausibilities = rollouts.answer_logps.clamp(max=0).exp().numpy()
    all_q, all_v = _under_hypotheses(rollouts, settings.get("outcome_mode", "ground_truth"))
    derived = []
    for row, (record, weights) in enumerate(zip(records, _weights(records), strict=True)):
        steps, size = len(record["step_ends"]), len(record["hypotheses"] or ())
        p = w = q = v = values = entropy = None
        if size:
            p = plausibilities[row, : steps + 1, :size]
            w = rollouts.belief[row, : steps + 1, :size].numpy()
            entropy = entr(w).sum(axis=-1) / np.log(max(size, 2))
            if rollouts.is_judged[row]:
                q, v = all_q[row, :steps, :size], all_v[row, :size]
                values = (w[:-1] * q).sum(axis=-1)
        step_values = {}
        if rollouts.is_judged[row]:
            step_values = {name: of_all[row, :steps] for name, of_all in methods.items()}
        of_run = step_values.get(settings.get("credit"))
        difference = _difference(of_run, record["step_values"])
        derived.append(Derived(p, w, q, v, values, entropy, weights, step_values, difference))
    return derived


def _under_hypotheses(rollouts: ScoredRollouts, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Return `q` and `v` of [`Derived`] of all rollouts, padded to one shape."""
    outcomes = hypothesis_outcomes(rollouts) if mode == "hypothesis" else rollouts.outcomes
    if not rollouts.answer_logps.shape[-1]:
        return rollouts.answer_logps[:, 1:].numpy(), rollouts.answer_logps[:, 0].numpy()
    q = q_values(rollouts.answer_logps, outcomes, state_mask=rollouts.state_mask, outcome=mode)
    v = outcomes if outcomes.ndim == 2 else outcomes[:, None].expand_as(rollouts.hypothesis_mask)
    return q.numpy(), v.numpy()


def _scored_rollouts(records: Records) -> ScoredRollouts:
    """Convert a batch of records to the rollouts that estimators of credit take."""
    steps = torch.tensor([len(r["step_ends"]) for r in records])
    sizes = torch.tensor([len(r["hypotheses"] or ()) for r in records])
    logps = torch.zeros(len(records), int(steps.max()) + 1, int(sizes.max()))
    belief = torch.zeros_like(logps)
    for row, record in enumerate(records):
        if record["hypotheses"]:
            place = row, slice(len(record["step_ends"]) + 1), slice(len(record["hypotheses"]))
            logps[place] = torch.tensor(record["answer_logps"])
            belief[place] = torch.tensor(record["posterior"])
    outcomes = torch.tensor([math.nan if r["outcome"] is None else r["outcome"] for r in records])
    has_value = torch.tensor([r["step_values"] is not None for r in records])
    is_judged = ~outcomes.isnan() & (has_value if has_value.any() else True)
    return ScoredRollouts(
        outcomes=torch.where(is_judged, outcomes, 0.0),
        is_judged=is_judged,
        is_cut_off=torch.tensor([bool(r["is_cut_off"]) for r in records]),
        groups=torch.tensor([r["group"] for r in records]),
        state_mask=torch.arange(logps.shape[1]) <= steps[:, None],
        answer_logps=logps,
        hypothesis_mask=torch.arange(logps.shape[2]) < sizes[:, None],
        belief=belief,
        members=[r["member"] for r in records],
    )


def _method_values(rollouts: ScoredRollouts, settings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the values of steps, (B, T), under each credit whose hypotheses were scored.

    Each credit's baseline is subtracted; for the run's credit it is the baseline that the run used.
    The values are not whitened. All credits take the run's likelihoods, also those that would
    reduce the log-likelihoods of an answer's tokens otherwise.
    """
    run_credit, size = settings.get("credit"), rollouts.answer_logps.shape[-1]
    needed = {"none": 0, "truth": 1, "rollouts": 2}
    by_credit = {}
    for name, credit in CREDITS.items():
        if name == run_credit:
            credit = credit._replace(credit_baseline=settings["credit_baseline"])
        # the rollouts of the run's credit may have had no answer but the truth
        if size >= needed[credit.hypotheses] or (size and name == run_credit):
            by_credit[name] = weigh_steps(rollouts, credit, settings).steps.numpy()
    return by_credit


def _difference(computed: np.ndarray | None, recorded: Sequence[float] | None) -> float | None:
    if computed is None or not recorded:
        return None
    apart = np.abs(computed - recorded)
    is_apart = apart > _TOLERANCE * np.maximum(1.0, np.abs(recorded))
    return float(apart.max()) if is_apart.any() else None


def _weights(records: Records) -> list[np.ndarray]:
    """Return the weight of each step, (T), of each rollout.

    It is the mean weight of the model's tokens in the step: the recorded weights, or, if no record
    has weights, the recorded step values standardised over the batch. A rollout without either has
    weights of 0.
    """
    weights = [record["token_weights"] for record in records]
    if all(row is None for row in weights):
        weights = _standardized(records)
    return [_means(row, record) for row, record in zip(weights, records, strict=True)]


def _standardized(records: Records) -> Sequence[Sequence[float]]:
    """Return weights of tokens: the recorded step values, whitened over the batch's tokens.

    A record without step values has weights of 0, and does not change the others.
    """
    ends = [record["step_ends"] for record in records]
    step_values = [torch.tensor(r["step_values"] or [0.0] * len(r["step_ends"])) for r in records]
    lengths = torch.tensor([row[-1] if row else 0 for row in ends])
    has_value = torch.tensor([record["step_values"] is not None for record in records])
    weighed = whitened_tokens(
        StepValues(pad_sequence(step_values, batch_first=True), torch.zeros(len(records))),
        ends,
        (torch.arange(int(lengths.max())) < lengths[:, None]) & has_value[:, None],
        torch.zeros(len(records), dtype=torch.long),
        num_groups=1,
        normalization="batch",
    )
    return weighed.weights.tolist()


def own_tokens(record: Mapping[str, Any]) -> np.ndarray:
    """Return whether the model wrote each token of a rollout, (L)."""
    if record["own_tokens"] is None:
        return np.ones(len(record["token_ids"]), dtype=bool)
    return np.array(record["own_tokens"], dtype=bool)


def _means(token_weights: Sequence[float] | None, record: Mapping[str, Any]) -> np.ndarray:
    """Return the mean weight of the model's tokens of each step, (T); 0 without weights."""
    ends = record["step_ends"]
    if token_weights is None or not len(ends):
        return np.zeros(len(ends))
    starts, is_own = [0, *ends[:-1]], own_tokens(record)[: ends[-1]]
    sums = np.add.reduceat(np.asarray(token_weights[: ends[-1]], dtype=float) * is_own, starts)
    return sums / np.maximum(np.add.reduceat(is_own, starts, dtype=int), 1)
