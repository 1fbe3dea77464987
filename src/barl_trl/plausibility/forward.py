"""Log-probabilities of the scored tokens of rows, through a model's public forward.

Only `model(...)` is called, so that PEFT, DDP, FSDP and DeepSpeed wrappers do their work. The head
runs only at the places whose logits are read. The model's attention decides whether it gets a tree
piece by piece, as a mask, or as plain sequences.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel

from .model_traits import causal_lm, compute_device, largest_of_processes, scales_logits
from .queries import Rollout
from .rows import Feeding, Layout, MicroBatch, Row, micro_batches, plain_row
from .tree_attention import attention_mask, mask_taking_attention, tree_attention

HEAD_TILE = 256
"""Number of places whose logits are held at a time."""


def token_logps(
    model: nn.Module,
    rollouts: Sequence[Rollout],
    rows: Sequence[Row],
    feeding: Feeding,
    max_tokens: int,
    *,
    temperature: float = 1.0,
    completion_temperature: float = 1.0,
) -> tuple[Float[Tensor, "B S H L"], Float[Tensor, "B C"]]:
    """Compute the log-probability of every scored token, in one or more forward passes.

    The rows hold the rollouts, their elicitations and answers. A temperature divides logits.

    Returns:
        Log-probabilities in nats of answer tokens by rollout, state, hypothesis and token of the
        answer, and of each rollout's own tokens from its `score_from` on; 0 elsewhere.
    """
    answers, completions = _zeros(rollouts, compute_device(model))
    batches = list(micro_batches(rows, feeding, max_tokens))
    # The other processes wait for this one in every forward: it joins in without rows of its own.
    idle = list(micro_batches([plain_row([0], [])], feeding, 1))
    batches += idle * (largest_of_processes(model, len(batches)) - len(batches))
    for batch in batches:
        logps = _read(model, batch, feeding.layout, (temperature, completion_temperature))
        own = batch.is_completion
        answers[batch.targets[~own].unbind(-1)] = logps[~own]
        completions[batch.targets[own][:, [0, 3]].unbind(-1)] = logps[own]  # rollout and token
    return answers, completions


def _zeros(
    rollouts: Sequence[Rollout], device: torch.device
) -> tuple[Float[Tensor, "B S H L"], Float[Tensor, "B C"]]:
    """Return zeros for every token that can be scored."""
    answers = [answer for rollout in rollouts for answer in rollout.answers]
    states = max((len(rollout.state_positions) for rollout in rollouts), default=0)
    hypotheses = max((len(rollout.answers) for rollout in rollouts), default=0) or 1
    tokens = max((len(answer.token_ids) for answer in answers), default=0)
    own = max((len(rollout.scored_positions) for rollout in rollouts), default=0)
    size = len(rollouts), states, hypotheses, tokens
    return torch.zeros(size, device=device), torch.zeros(len(rollouts), own, device=device)


def _read(
    model: nn.Module, batch: MicroBatch, layout: Layout, temperatures: tuple[float, float]
) -> Float[Tensor, " K"]:
    """Run one forward pass and return the log-probability of each scored token in float32."""
    base, device = causal_lm(model), compute_device(model)
    inputs: dict[str, object] = {"position_ids": batch.position_ids.to(device)}
    attention = nullcontext()
    if layout == "packed":
        attention = tree_attention(base, batch)
    elif layout == "masked":
        attention = mask_taking_attention(base)
    else:
        inputs = {"attention_mask": batch.attention_mask.long().to(device)}
    if getattr(base.config.get_text_config(), "output_router_logits", False):
        inputs["output_router_logits"] = False  # the balancing loss cannot use a 4D mask
    reader = _LogitReader(batch, temperatures)
    with attention:
        if layout == "masked":
            inputs["attention_mask"] = attention_mask(base, batch, device)
        return _label_logps(model, batch.token_ids.to(device), reader, inputs).to(device)


class _LogitReader:
    """The places of a pass at which logits are read, and the labels that are looked up there."""

    def __init__(self, batch: MicroBatch, temperatures: tuple[float, float]):
        # a place may be read at two temperatures: without an elicitation, where an answer begins
        reads, index = (2 * batch.places + batch.is_completion).unique(return_inverse=True)
        self._places, self._length = reads // 2, batch.token_ids.shape[1]
        self._divisors = torch.tensor(temperatures)[reads % 2]
        self._order = index.argsort()
        self._index, self._labels = index[self._order], batch.labels[self._order]

    def fits(self, values: Tensor) -> bool:
        """Say whether there is one vector for each place: ProphetNet's head gets two streams."""
        return values.ndim == 3 and values.shape[1] >= self._length

    def at_places(self, values: Float[Tensor, "R M d"]) -> Float[Tensor, "P d"]:
        """Return the hidden states or logits at the places that are read."""
        places, length = self._places.to(values.device), self._length
        # PEFT prompt tuning puts M - N tokens of its own in front of each row.
        return values[places // length, places % length + values.shape[1] - length]

    def logps(self, logits_of: Callable[[slice], Float[Tensor, "p V"]]) -> Float[Tensor, " K"]:
        """Return each label's log-probability, from the logits of `HEAD_TILE` places at a time."""
        tiles = []
        for first in range(0, len(self._places), HEAD_TILE):
            tile = slice(first, first + HEAD_TILE)
            a, b = torch.searchsorted(self._index, torch.tensor([tile.start, tile.stop])).tolist()
            logits, divisors = logits_of(tile).float(), self._divisors[tile, None]
            if (divisors != 1).any():
                logits = logits / divisors.to(logits.device)
            index = (self._index[a:b] - tile.start).to(logits.device)
            labels = self._labels[a:b].to(logits.device)
            tiles.append(logits[index, labels] - logits.logsumexp(-1)[index])
        logps = torch.cat(tiles) if tiles else torch.zeros(0)
        return torch.empty_like(logps).index_copy_(0, self._order.to(logps.device), logps)


_scaling_models: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""Whether a model changes the logits that its head returns. A pass has to show it first."""


def _label_logps(
    model: nn.Module, token_ids: Int[Tensor, "R N"], reader: _LogitReader, inputs: dict[str, object]
) -> Float[Tensor, " K"]:
    """Run a forward pass whose LM head sees only the places that are read, some at a time.

    All logits at once would be the largest tensor of the pass. So labels are looked up inside the
    head, where a sharded weight is gathered, and the model gets the logits of the first places: if
    it returns others, all must go through it. (transformers 5.21's `logits_to_keep` takes places.)
    """
    base = causal_lm(model)
    scales = _scaling_models.get(base, scales_logits(base.config) or None)
    head: Any = base.get_output_embeddings()
    head = head.module if isinstance(head, FullyShardedDataParallel) else head
    seen: dict[str, Tensor] = {}

    def pick(_, args):
        if not reader.fits(args[0]):
            return None
        seen["states"] = reader.at_places(args[0])[None]
        return (seen["states"][:, : None if scales else HEAD_TILE],)

    def look_up(head, _, logits):
        states = seen.get("states")
        if states is None:
            return
        if not scales:
            seen["logps"] = reader.logps(
                lambda tile: (head.forward(states[:, tile]) if tile.start else logits)[0]
            )
        if scales is None:
            seen["logits"] = logits[0].clone()

    hooks = []
    if head is not None:
        hooks += [head.register_forward_pre_hook(pick)]
        hooks += [head.register_forward_hook(look_up, prepend=True)]
    try:
        logits = model(input_ids=token_ids, use_cache=False, **inputs).logits
    finally:
        for hook in hooks:
            hook.remove()
    if not seen:  # the head is missing, or used without being called: all logits are there
        logits = reader.at_places(logits)
        return reader.logps(lambda tile: logits[tile])
    if scales is None and _changes_logits(model, logits[0], seen["logits"].to(logits)):
        return _label_logps(model, token_ids, reader, inputs)
    return reader.logps(lambda tile: logits[0, tile]) if scales else seen["logps"]


def _changes_logits(
    model: nn.Module, logits: Float[Tensor, "p V"], of_head: Float[Tensor, "p V"]
) -> bool:
    """Say, equally on all processes, whether a model returned other logits than its head's."""
    verdict = 0  # nothing was read; 1: the model returns its head's logits, 2: others
    if len(of_head):
        verdict = 2 - torch.allclose(logits, of_head, rtol=0, atol=0, equal_nan=True)
    verdict = largest_of_processes(model, verdict)
    if verdict > 0:
        _scaling_models[causal_lm(model)] = verdict == 2
    return verdict == 2
