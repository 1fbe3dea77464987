"""Self-checks: whether a model scores trees, padded rows and a cache as it would one row alone."""

import logging
import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary, ref

import torch
from torch import nn

from ..kv_cache import GenerationCache
from ..queries import Rollout
from ..tree.rows import Layout
from .faults import why_not_exact, why_not_padded, why_stale
from .model_traits import (
    ROPE_DEPENDS_ON_LENGTH,
    causal_lm,
    largest_of_processes,
    rope_depends_on_length,
    why_not_shared_prefix,
)
from .reference import Reference, reference

_Verdicts = WeakKeyDictionary[nn.Module, tuple[int, str | None]]
"""For each model, the length of the longest rollout checked so far, and what is wrong with the
model; None if nothing is.
"""

logger = logging.getLogger(__name__)

_prefix_checks: _Verdicts = WeakKeyDictionary()
_cache_checks: _Verdicts = WeakKeyDictionary()
_cache_uses: WeakKeyDictionary[nn.Module, tuple[int, ref]] = WeakKeyDictionary()
"""For each model, the number of caches that it had, and the last one."""
_padding_checks: dict[Layout, _Verdicts] = {
    "plain": WeakKeyDictionary(),
    "masked": WeakKeyDictionary(),
}


class Checks:
    """The checks of one call, and how long they took.

    Args:
        model: The model.
        elicitation_ids: Token ids of the common elicitation.
        max_tokens: Most tokens of one forward pass.
    """

    def __init__(self, model: nn.Module, elicitation_ids: Sequence[int], max_tokens: int):
        self.model, self.seconds = model, 0.0
        self._settings = elicitation_ids, max_tokens
        self._references: dict[int, Reference] = {}

    def can_share_prefixes(self, rollouts: Sequence[Rollout]) -> bool:
        """Check the model by its description and by what it does; warn once if it is re-encoded.

        The check is repeated when rollouts outgrow the checked length by a power of two: an
        attention window that the description hides changes no value before the context exceeds
        it. Between two checks such a window goes unnoticed; the windows of transformers' families
        are in their descriptions.
        """
        return self._passes(
            _prefix_checks,
            rollouts,
            lambda longest: (
                why_not_shared_prefix(self.model) or self._fault(why_not_exact, longest)
            ),
            "cannot share prefixes, every state is re-encoded",
        )

    def can_pad(self, rollouts: Sequence[Rollout], layout: Layout) -> bool:
        """Check whether rows of unequal length may meet in a batch; warn once if they may not.

        The check is repeated when rollouts outgrow the checked length by a power of two.
        """
        described = rope_depends_on_length(causal_lm(self.model).config.get_text_config())
        return layout == "packed" or self._passes(
            _padding_checks[layout],
            rollouts,
            lambda longest: (
                ROPE_DEPENDS_ON_LENGTH
                if described
                else self._fault(why_not_padded, longest, layout)
            ),
            "depends on padding, only rows of equal length are fed together",
        )

    def cached_lengths(
        self, rollouts: Sequence[Rollout], cache: GenerationCache | None
    ) -> list[int]:
        """Return how many leading tokens of each rollout need not be fed; [] if all must be.

        The cache is checked by values: generation must have computed what scoring would. The check
        is repeated with the second, fourth, eighth cache and so on, in case that weights begin to
        change between generation and scoring, and when rollouts outgrow the checked length by a
        power of two.
        """
        asked = [i for i, rollout in enumerate(rollouts) if rollout.answers]
        if cache is None or not asked:
            return []
        lengths = cache.lengths(rollouts)
        longest = max(asked, key=lengths.__getitem__)
        checked, reason = _cache_checks.get(self.model, (0, None))
        uses, last = _cache_uses.get(self.model, (0, None))
        is_new = last is None or last() is not cache  # or memory ran out in the first try
        _cache_uses[self.model] = uses + is_new, ref(cache)
        is_due = is_new and (uses + 1).bit_count() == 1
        is_due |= lengths[longest].bit_length() > checked.bit_length()
        if reason is None and is_due and lengths[longest]:
            reason = self._fault(why_stale, rollouts[longest], cache.select([longest]))
            _cache_checks[self.model] = (max(checked, lengths[longest]), reason)
            if reason is not None:
                logger.warning(
                    f"rollouts are fed once more, generation's cache is no help: {reason}."
                )
        return lengths if reason is None and any(lengths) else []

    def _passes(
        self,
        verdicts: _Verdicts,
        rollouts: Sequence[Rollout],
        why_not: Callable[[Rollout | None], str | None],
        warning: str,
    ) -> bool:
        """Return whether a check of the longest rollout finds nothing, in all processes."""
        model = self.model
        scored = (rollout for rollout in rollouts if rollout.answers)
        longest = max(scored, key=lambda rollout: rollout.state_positions[-1], default=None)
        length = largest_of_processes(model, longest.state_positions[-1] if longest else 0)
        checked, reason = verdicts.get(model, (0, None))
        if reason is None and length.bit_length() > checked.bit_length():
            reason = why_not(longest)
            if largest_of_processes(model, int(reason is not None)) and reason is None:
                reason = "another process found it inexact"
            verdicts[model] = (length, reason)
            if reason is not None:
                logger.warning(f"{type(causal_lm(model)).__name__} {warning}: {reason}.")
        return reason is None

    def _fault(
        self, check: Callable[..., str | None], rollout: Rollout | None, *args: object
    ) -> str | None:
        """Return what a check finds, or that the model cannot even be asked."""
        started = time.perf_counter()
        try:
            if id(rollout) not in self._references:
                expected = reference(self.model, rollout, *self._settings)
                self._references[id(rollout)] = expected
            return check(self.model, self._references[id(rollout)], *self._settings, *args)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a forward makes of rows it was not written for
            return f"its forward over such rows raised {type(error).__name__}: {error}"
        finally:
            if torch.accelerator.is_available():
                torch.accelerator.synchronize()
            self.seconds += time.perf_counter() - started
