"""How plausible a causal language model finds each hypothesis's answer at each state of a rollout.

All answers of a rollout are scored in one forward over a packed row (`shared_prefix`), or, where a
model does not allow that, in one row for every state and answer (`reencode`). Both use the model's
public forward only, so that PEFT, DDP, FSDP and DeepSpeed wrappers do their work.
"""

import inspect
import logging
from collections.abc import Sequence
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from peft import PeftModel
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .generation_cache import GenerationCache
from .memory import MEMORY_IS_SHORT, MIN_TOKENS, halved_together, scoring_token_budget
from .packing import Row, reencoded_rows, shared_prefix_rows
from .rollouts import Rollout
from .row_logps import (
    Layout,
    layer_types,
    rope_depends_on_length,
    takes_masks,
    takes_trees,
    token_logps,
)
from .wrapped_models import causal_lm, evaluating, is_sharded, largest_of_processes

logger = logging.getLogger(__name__)


class AnswerLogLikelihoods(NamedTuple):
    """Answer log-likelihoods of B rollouts, padded to S states and H hypotheses.

    Args:
        answer_logps: Log-probability of each answer, in [-inf, 0], never NaN; 0 in padding.
        state_mask: Which states exist.
        hypothesis_mask: Which hypotheses exist.
        own_logps: Log-probability of each rollout's own tokens from `read_from` on; 0 in padding.
        num_tokens: Number of tokens fed to the model, padding not counted.
        max_tokens: How many of them at a time.
    """

    answer_logps: Float[Tensor, "B S H"]
    state_mask: Bool[Tensor, "B S"]
    hypothesis_mask: Bool[Tensor, "B H"]
    own_logps: Float[Tensor, "B C"]
    num_tokens: int
    max_tokens: int


@torch.no_grad()
def answer_log_likelihoods(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    *,
    elicitation_ids: Sequence[int],
    reduction: Literal["mean", "sum"] = "mean",
    method: Literal["shared_prefix", "reencode"] = "shared_prefix",
    temperature: float = 1.0,
    own_temperature: float = 1.0,
    max_tokens: int | None = None,
    generation_cache: GenerationCache | None = None,
) -> AnswerLogLikelihoods:
    r"""Compute the log-likelihood of every hypothesis's answer at every state.

    $\ell_i(t) = \sum_j \log \pi(y_{i,j} \mid s_t, e, y_{i,<j})$ over the scored tokens j of the
    answer $y_i$ behind the state $s_t$ and the elicitation e, or the mean over them: the logarithm
    of the paper's plausibility.

    The model runs in evaluation mode and is left as it was, also after an exception. Where
    parameters are sharded (FSDP, ZeRO-3), all processes must call this together, each with its own
    rollouts or with none.

    Args:
        model: A causal language model of transformers, wrapped or not.
        rollouts: What to score. A rollout of which nothing is asked is not fed to the model.
        elicitation_ids: Token ids between state and answer, where a rollout names no others.
        reduction: Whether to average or to sum over an answer's scored tokens.
        method: `"shared_prefix"` feeds a rollout once, `"reencode"` once per state and answer. A
            model for which the former is not exact is re-encoded, with one warning that says why.
        temperature: Divides the logits.
        own_temperature: Divides the logits of the rollouts' own tokens.
        max_tokens: Tokens of one forward pass, padding included; a longer row goes alone. By
            default as many as fit (`memory`). Halved whenever memory runs out; where parameters
            are sharded, on all processes alike, before one of them takes more than half of what is
            free.
        generation_cache: What the generation of these rollouts left: such tokens are not fed again.

    Returns:
        The log-likelihoods in float32 on the device that the model computes on, with masks.

    Raises:
        ValueError: If an argument breaks these rules.
        torch.OutOfMemoryError: If halving does not help, or if memory runs out in a forward with
            sharded parameters nevertheless: the other processes wait for the rest of it.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be mean or sum, got {reduction!r}: choose one of them")
    if method not in ("shared_prefix", "reencode"):
        raise ValueError(f"method must be shared_prefix or reencode, got {method!r}: choose one")
    for name, value in (("temperature", temperature), ("own_temperature", own_temperature)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}: 1 samples as trained")
    # Without gradients DDP has nothing to do, yet its forward waits for the other processes.
    model = model.module if isinstance(model, DistributedDataParallel) else model
    max_tokens = halved_together(model, max_tokens or scoring_token_budget(model))
    rows: list[Row] = []
    with evaluating(model):
        while True:
            try:
                shared = method == "shared_prefix" and _can_share(
                    model, rollouts, elicitation_ids, max_tokens
                )
                layout = _layout(model) if shared else "plain"
                cache = generation_cache if layout == "packed" else None
                known = _known(model, rollouts, elicitation_ids, max_tokens, cache)
                rows = _rows(rollouts, elicitation_ids, layout, max_tokens, known)
                logps, own_logps = token_logps(
                    model, rollouts, rows, layout, max_tokens, temperature, own_temperature, cache
                )
                break
            except torch.OutOfMemoryError as error:
                if is_sharded(model) or max_tokens <= MIN_TOKENS:
                    advice = f"set scoring_max_tokens below {max_tokens}, or max_completion_length"
                    raise torch.OutOfMemoryError(
                        f"{error} While scoring answers: {advice}"
                    ) from error
            # behind the handler, which would keep the failed pass alive
            max_tokens = min(max_tokens, sum(row.size for row in rows) or max_tokens) // 2
            logger.warning(MEMORY_IS_SHORT, max_tokens)
    state_mask = torch.zeros(logps.shape[:2], dtype=torch.bool)
    num_scored = torch.zeros(len(rollouts), logps.shape[2])
    for i, rollout in enumerate(rollouts):
        state_mask[i, : len(rollout.state_positions)] = True
        for hypothesis, answer in enumerate(rollout.answers):
            num_scored[i, hypothesis] = len(answer.token_ids) - answer.score_from
    state_mask, num_scored = state_mask.to(logps.device), num_scored.to(logps.device)
    answer_logps = logps.sum(-1)
    if reduction == "mean":
        answer_logps /= num_scored.clamp(min=1)[:, None]
    num_tokens = sum(row.size for row in rows)
    return AnswerLogLikelihoods(
        answer_logps, state_mask, num_scored > 0, own_logps, num_tokens, max_tokens
    )


def _rows(
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    layout: Layout,
    max_tokens: int,
    known: Sequence[int],
) -> list[Row]:
    if layout == "plain":
        return reencoded_rows(rollouts, elicitation_ids)
    # a mask over a whole group would cost more than the shared prompt saves
    shared = max_tokens if layout == "packed" and not known else 0
    return shared_prefix_rows(rollouts, elicitation_ids, max_shared_tokens=shared, known=known)


def _layout(model: nn.Module) -> Layout:
    return "packed" if takes_trees(causal_lm(model)) else "masked"


def why_not_shared_prefix(model: nn.Module) -> str | None:
    """Say why a model, by its description, cannot score packed rows, or None if it may.

    They need attention that sees only what a mask shows, and positions given by `position_ids`.
    """
    base = causal_lm(model)
    config = base.config.get_text_config()
    others = layer_types(config) - {"full_attention", "sliding_attention", "chunked_attention"}
    if base._is_stateful or others:
        return f"its layers carry a recurrent state or are of an unknown type {sorted(others)}"
    if "position_ids" not in inspect.signature(type(base).forward).parameters:
        return "its forward takes no position_ids (ALiBi, or recurrent)"
    # GPT-Neo's local attention and Llama 4's attention temperature count places in the row.
    by_place = ("alibi", "attention_types", "attn_temperature_tuning")
    if any(getattr(config, name, None) for name in by_place):
        return f"its attention depends on more than position_ids (one of {', '.join(by_place)})"
    if rope_depends_on_length(config):
        return "its rotary embedding depends on the longest row of a batch (dynamic or longrope)"
    if not (takes_masks(config) or base._can_set_attn_implementation()):
        return f"its attention implementation {config._attn_implementation} takes no 4D mask"
    if any(
        isinstance(m, PeftModel) and m.active_peft_config.is_prompt_learning
        for m in model.modules()
    ):
        return "PEFT prompt learning puts tokens of its own in front of every row"
    return None


# Of each model: the longest rollout checked so far, and why it is re-encoded, if it is.
_checks: WeakKeyDictionary[nn.Module, tuple[int, str | None]] = WeakKeyDictionary()


def _can_share(
    model: nn.Module, rollouts: Sequence[Rollout], elicitation_ids: Sequence[int], max_tokens: int
) -> bool:
    """Check a model once, by its description and by its values; warn once if it is re-encoded.

    The check is repeated when rollouts outgrow the checked length by a power of two: an attention
    window that the description hides changes no value before the context exceeds it. In between it
    goes unnoticed; the windows of transformers' families are in their descriptions.
    """
    scored = (rollout for rollout in rollouts if rollout.answers)
    longest = max(scored, key=lambda rollout: rollout.state_positions[-1], default=None)
    length = largest_of_processes(model, longest.state_positions[-1] if longest else 0)
    checked, reason = _checks.get(model, (0, None))
    if reason is None and length.bit_length() > checked.bit_length():
        reason = why_not_shared_prefix(model) or _why_inexact(
            model, longest, elicitation_ids, max_tokens
        )
        if largest_of_processes(model, int(reason is not None)) and reason is None:
            reason = "another process found it inexact"
        _checks[model] = (length, reason)
        if reason is not None:
            name = type(causal_lm(model)).__name__
            logger.warning(f"{name} cannot share prefixes, every state is re-encoded: {reason}")
    return reason is None


# Of each model: the longest known prefix checked so far, and why none is used, if so.
_cache_checks: WeakKeyDictionary[nn.Module, tuple[int, str | None]] = WeakKeyDictionary()


def _known(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    max_tokens: int,
    cache: GenerationCache | None,
) -> list[int]:
    """Return how many leading tokens of each rollout need not be fed; nothing if all must be.

    Checked by values as packed rows are: what generation computed must be what scoring would.
    """
    asked = [i for i, rollout in enumerate(rollouts) if rollout.answers]
    if cache is None or not asked:
        return []
    lengths = cache.lengths(rollouts)
    longest = max(asked, key=lengths.__getitem__)
    checked, reason = _cache_checks.get(model, (0, None))
    if reason is None and lengths[longest].bit_length() > checked.bit_length():
        own = cache.select([longest, longest])
        reason = _why_inexact(model, rollouts[longest], elicitation_ids, max_tokens, own)
        _cache_checks[model] = (lengths[longest], reason)
        if reason is not None:
            logger.warning(f"rollouts are fed once more, generation's cache is no help: {reason}")
    return lengths if reason is None and any(lengths) else []


def _why_inexact(
    model: nn.Module,
    rollout: Rollout | None,
    elicitation_ids: Sequence[int],
    max_tokens: int,
    cache: GenerationCache | None = None,
) -> str | None:
    """Compare packed rows to re-encoding at a few states, and say how they differ, if they do.

    In a second packed row the deepest state's branch is garbled: no other state may notice. The
    mean difference of token log-probabilities is judged against the noise that padding makes. A
    cache holds the rollout twice.
    """
    probes = []
    if rollout is not None:
        states = rollout.state_positions
        few = sorted({1, states[0], states[len(states) // 2], states[-1]})
        probes = [Rollout(rollout.token_ids, few, rollout.answers[:2])] * 2
    plain = reencoded_rows(probes[:1], elicitation_ids)
    exact, _ = token_logps(model, probes[:1], plain, "plain", max_tokens=1)
    padded, _ = token_logps(model, probes[:1], plain, "plain", max_tokens)
    known = () if cache is None else cache.lengths(probes)
    packed = shared_prefix_rows(probes, elicitation_ids, known=known)
    for row in packed[1:]:
        start = probes[0].state_positions[-1]
        stop = row.ends[start - 1]
        row.token_ids[start:stop] = row.token_ids[:1] * (stop - start)
    try:
        shared, _ = token_logps(model, probes, packed, _layout(model), max_tokens, cache=cache)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a forward makes of rows it was not written for
        return f"its forward over packed rows raised {type(error).__name__}: {error}"
    if rollout is None:
        return None
    shared[1, -1] = exact[0, -1]
    noise, gap = (
        torch.where(logps == exact, 0, (logps - exact).abs()).sum((1, 2, 3)).max().item()
        / sum(len(row.reads) for row in plain)
        for logps in (padded, shared)
    )
    floor = 1e-3 if causal_lm(model).dtype in (torch.float32, torch.float64) else 1e-2
    tolerance = min(max(5 * noise, floor), 0.05)
    if gap <= tolerance:
        return None
    return f"packed rows are off by {gap:.2g} nats per token (tolerance {tolerance:.2g})"
