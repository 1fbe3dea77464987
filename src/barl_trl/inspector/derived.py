"""The numbers that the page shows of rollouts: beliefs, values, weights, and other credits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from ..credit import CREDITS
from ..credit.barl import hypothesis_outcomes
from ..credit.bayes import bayes
from ..credit.rollouts import ScoredRollouts, is_answered
from ..credit.token_weights import weigh_steps, whitened_tokens
from ..posterior import StepValues, q_values

Records = Sequence[Mapping[str, Any]]

_TOLERANCE = 1e-3
"""Most by which a computed value may miss the recorded one, relative to it where it exceeds 1."""


class Derived(NamedTuple):
    """Numbers of a rollout with T steps, T + 1 states and H hypotheses.

    `p`, `w` and `entropy` are None if the rollout was not scored. `q`, `v` and `values` are None if
    it was not scored, or has no outcome. Of a run with the credit `bayes`, `q` is None, `v` and
    `values` need no outcome, and `values` are those of that credit without its baseline.
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
    expected: float | None
    """Outcome expected under the last belief, with its costs, of a run with the credit `bayes`."""
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
    total: float | None
    """Return, which GRPO compares: the outcome and the rewards of turns; None if there are none."""


Members = Sequence[tuple[Mapping[str, Any], Derived]]


def derive(records: Records, metadata: Mapping[str, Any]) -> list[Derived]:
    """Compute what the page shows of the rollouts of one batch.

    The weights are the recorded ones. If no record has weights, the recorded step values are
    standardised over the tokens of the batch, as training does by default. The values follow from
    the `settings` in the metadata.
    """
    settings = settings_of(metadata)
    rollouts = _scored_rollouts(records, metadata.get("outcome_scale", 1.0))
    is_known = torch.tensor([r["outcome"] is not None and has_truth(r) for r in records])
    with_truth = replace(rollouts, is_judged=rollouts.is_judged & is_known)
    methods = _method_values(rollouts, with_truth, settings)
    plausibilities = rollouts.answer_logps.clamp(max=0).exp().numpy()
    is_bayes = settings.get("credit") == "bayes"
    shown, under = (rollouts, _under_bayes) if is_bayes else (with_truth, _under_hypotheses)
    all_q, all_v, all_values, all_expected = under(shown, settings)
    derived = []
    for row, (record, weights) in enumerate(zip(records, _weights(records), strict=True)):
        steps, size = len(record["step_ends"]), len(record["hypotheses"] or ())
        p = w = q = v = values = expected = entropy = None
        if size:
            belief = rollouts.belief[row, : steps + 1, :size]
            p, w = plausibilities[row, : steps + 1, :size], belief.numpy()
            entropy = torch.special.entr(belief).sum(dim=-1).numpy() / np.log(max(size, 2))
            if shown.is_judged[row]:
                v, values = all_v[row, :size], all_values[row, :steps]
                q = None if all_q is None else all_q[row, :steps, :size]
                expected = None if all_expected is None else float(all_expected[row])
        step_values = {
            name: of_all[row, :steps]
            for name, of_all in methods.items()
            if (with_truth if CREDITS[name].needs_truth else rollouts).is_judged[row]
        }
        of_run = step_values.get(str(settings.get("credit")))
        numbers = p, w, q, v, values, expected, entropy, weights, step_values
        difference = _difference(of_run, record["step_values"])
        derived.append(Derived(*numbers, difference, _return(record)))
    return derived


def settings_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run by name, the options of its credit among them."""
    settings = dict(metadata.get("settings", {}))
    return settings | (settings.pop("credit_options", None) or {})


def has_truth(record: Mapping[str, Any]) -> bool:
    """Return whether the first hypothesis of a rollout, if it has any, is the true answer."""
    return record["has_truth"] is not False


def _return(record: Mapping[str, Any]) -> float | None:
    told = record["turn_rewards"]
    # float32's noise is no difference
    return None if told is None else round(sum(x or 0.0 for x in [record["outcome"], *told]), 6)


def _under_hypotheses(rollouts: ScoredRollouts, settings: Mapping[str, Any]) -> Any:
    """Return `q`, `v`, `values` and `expected` of [`Derived`] of all rollouts, padded."""
    logps, rewards, mode = rollouts.answer_logps, rollouts.rewards, settings.get("outcome_mode")
    outcomes = hypothesis_outcomes(rollouts) if mode == "hypothesis" else rollouts.outcomes
    if not logps.shape[-1]:
        return logps[:, 1:].numpy(), logps[:, 0].numpy(), logps[:, 1:, :0].numpy(), None
    mask, mode = rollouts.state_mask, mode or "ground_truth"
    q = q_values(logps, outcomes, rewards=rewards, state_mask=mask, outcome=mode)
    v = outcomes if outcomes.ndim == 2 else outcomes[:, None].expand_as(rollouts.hypothesis_mask)
    belief = rollouts.belief[:, :-1]
    weighted = torch.where(belief > 0, belief * q, 0.0).sum(dim=-1)
    return q.numpy(), v.numpy(), weighted.numpy(), None


def _under_bayes(rollouts: ScoredRollouts, settings: Mapping[str, Any]) -> Any:
    steps, expected = bayes(rollouts, **CREDITS["bayes"].settings(settings))
    return None, rollouts.outcomes_if_true.numpy(), steps.numpy(), expected.numpy()


def _scored_rollouts(records: Records, outcome_scale: float) -> ScoredRollouts:
    """Convert a batch of records to the rollouts that estimators of credit take."""
    steps = torch.tensor([len(r["step_ends"]) for r in records])
    sizes = torch.tensor([len(r["hypotheses"] or ()) for r in records])
    logps = torch.zeros(len(records), int(steps.max()) + 1, int(sizes.max()))
    belief, predicted = torch.zeros_like(logps), torch.zeros_like(logps[:, 1:])
    for row, record in enumerate(records):
        if record["hypotheses"]:
            number, size = len(record["step_ends"]), len(record["hypotheses"])
            logps[row, : number + 1, :size] = torch.tensor(record["answer_logps"])
            belief[row, : number + 1, :size] = torch.tensor(record["posterior"])
            if record["predicted_rewards"]:
                predicted[row, :number, :size] = torch.tensor(record["predicted_rewards"])
    has_rewards = any(r["predicted_rewards"] is not None for r in records)
    outcomes = torch.tensor([math.nan if r["outcome"] is None else r["outcome"] for r in records])
    has_value = torch.tensor([r["step_values"] is not None for r in records])
    has_costs = any(r["cost"] is not None for r in records)
    # a credit that needs no outcome judges rollouts that have none
    is_judged = has_value if has_value.any() else ~outcomes.isnan()
    rollouts = ScoredRollouts(
        outcomes=torch.where(is_judged, outcomes, 0.0).nan_to_num(),
        is_judged=is_judged,
        is_cut_off=torch.tensor([bool(r["is_cut_off"]) for r in records]),
        groups=torch.tensor([r["group"] for r in records]),
        state_mask=torch.arange(logps.shape[1]) <= steps[:, None],
        answer_logps=logps,
        hypothesis_mask=torch.arange(logps.shape[2]) < sizes[:, None],
        belief=belief,
        members=[r["member"] for r in records],
        rewards=predicted if has_rewards else None,
        costs=torch.tensor([r["cost"] or 0.0 for r in records]) if has_costs else None,
        turn_rewards=_of_steps(records, "turn_rewards", torch.float32),
        states=_of_steps(records, "states", torch.long),
    )
    if outcome_scale == 1.0 and not any(r["outcomes_under"] for r in records):
        return rollouts
    under = is_answered(rollouts) * outcome_scale
    for row, record in enumerate(records):
        if record["outcomes_under"]:
            under[row, : sizes[row]] = torch.tensor(record["outcomes_under"])
    return replace(rollouts, outcomes_under=under)


def _of_steps(records: Records, name: str, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a column with a number for each step, (B, T); 0 for null, None if no record has it."""
    if all(record[name] is None for record in records):
        return None
    rows = [[number or 0 for number in record[name] or ()] for record in records]
    return pad_sequence([torch.tensor(row, dtype=dtype) for row in rows], batch_first=True)


def _method_values(
    rollouts: ScoredRollouts, known: ScoredRollouts, settings: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Return the values of steps, (B, T), under each credit whose hypotheses were scored.

    Each credit's baseline is subtracted; for the run's credit it is the baseline that the run used.
    The values are not whitened. All credits take the run's likelihoods, also those that would
    reduce the log-likelihoods of an answer's tokens otherwise. Credits that need a truth judge only
    the `known` rollouts, with a truth and an outcome. Those that must not know it are left out if
    the run's belief does.
    """
    run_credit, size = settings.get("credit"), rollouts.answer_logps.shape[-1]
    needed = {"none": 0, "truth": 1, "rollouts": 2}
    by_credit, knows_truth = {}, settings.get("belief", "model") == "model"
    for name, credit in CREDITS.items():
        if name == run_credit:
            baseline = settings.get("credit_baseline", credit.credit_baseline)
            credit = credit._replace(credit_baseline=baseline)
        elif (credit.replaces_outcome and knows_truth) or (
            credit.turn_rewards == "own" and rollouts.turn_rewards is None
        ):
            continue
        # the rollouts of the run's credit may have had no answer but the truth
        if size >= needed[credit.hypotheses] or (size and name == run_credit):
            judged = known if credit.needs_truth else rollouts
            by_credit[name] = weigh_steps(judged, credit, settings).steps.numpy()
    return by_credit


def _difference(computed: np.ndarray | None, recorded: Sequence[float] | None) -> float | None:
    if computed is None or not recorded:
        return None
    apart = np.abs(computed - recorded)
    is_apart = apart > _TOLERANCE * np.maximum(1.0, np.abs(recorded))
    return float(apart.max()) if is_apart.any() else None


def _weights(records: Records) -> list[np.ndarray]:
    """Return the mean weight of the model's tokens of each step, (T), of each rollout, or 0."""
    weights = [record["token_weights"] for record in records]
    values = _of_steps(records, "step_values", torch.float32)
    if values is not None and all(row is None for row in weights):
        weights = _standardized(records, values)
    means = []
    for row, record in zip(weights, records, strict=True):
        ends = record["step_ends"]
        if row is None or not ends:
            means.append(np.zeros(len(ends)))
            continue
        starts, is_own = [0, *ends[:-1]], own_tokens(record)[: ends[-1]]
        sums = np.add.reduceat(np.asarray(row[: ends[-1]], dtype=float) * is_own, starts)
        means.append(sums / np.maximum(np.add.reduceat(is_own, starts, dtype=int), 1))
    return means


def _standardized(records: Records, values: torch.Tensor) -> list[Sequence[float] | None]:
    """Return weights of tokens: the recorded step values, whitened over the batch's tokens.

    A record without step values has none, and does not change the others.
    """
    ends = [record["step_ends"] if record["step_values"] else [] for record in records]
    lengths = torch.tensor([max(row, default=0) for row in ends])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    groups, closing = lengths.new_zeros(len(ends)), values.new_zeros(len(ends))
    how: Any = {"num_groups": 1, "normalization": "batch"}
    rows = whitened_tokens(StepValues(values, closing), ends, mask, groups, **how).weights.tolist()
    return [row if of_steps else None for row, of_steps in zip(rows, ends, strict=True)]


def own_tokens(record: Mapping[str, Any]) -> np.ndarray:
    """Return whether the model wrote each token of a rollout, (L)."""
    if record["own_tokens"] is None:
        return np.ones(len(record["token_ids"]), dtype=bool)
    return np.array(record["own_tokens"], dtype=bool)
