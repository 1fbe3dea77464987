"""Rollouts and the answers asked for at their states as rows of tokens: ids in, tensors out.

A rollout and its answers form a tree. The trunk is the rollout; behind each state hangs a branch:
the elicitation, then a trie of the answers. One row holds the tree in preorder, deepest fork first:

    s_0 | step 0 | step 1 | branch of s_2 | branch of s_1 | branch of s_0

The descendants of a token are then the run of tokens right behind it, so one int per token, its
`end`, says who sees whom: the key k is visible to the query q iff `k <= q < end[k]`. That holds for
trunk, branches, shared answer tokens and padding alike. Position ids are depths in the tree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True)
class Answer:
    """The tokens of a hypothesis's answer `{y}.`; those before `score_from` are forced.

    Raises:
        ValueError: If no token is left to be scored.
    """

    token_ids: Sequence[int]
    score_from: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.score_from < len(self.token_ids):
            raise ValueError(
                f"score_from must be at least 0 and below {len(self.token_ids)}, the number of "
                f"token_ids, got {self.score_from}: leave at least one token to be scored"
            )


@dataclass(frozen=True)
class Rollout:
    """One rollout, its states, and the answers whose likelihood is asked for at each of them.

    Args:
        token_ids: Prompt + completion: no padding, nothing behind the last chain-of-thought token.
        state_positions: Number of leading tokens that each state holds, strictly ascending.
        answers: The hypotheses' answers; index 0 is the ground truth. May be empty.
        state_elicitations: The elicitation of each state, where it is not the common one.

    Raises:
        ValueError: If a field breaks these rules.
    """

    token_ids: Sequence[int]
    state_positions: Sequence[int]
    answers: Sequence[Answer]
    state_elicitations: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        positions, length = list(self.state_positions), len(self.token_ids)
        if length == 0:
            raise ValueError("token_ids must not be empty, got []: a rollout starts with a prompt")
        if not positions or min(positions) < 1 or max(positions) > length:
            raise ValueError(
                f"state_positions must name one state or more, each of 1 to {length} tokens, got "
                f"{positions}: give the number of leading token_ids that each state holds"
            )
        if any(later <= earlier for earlier, later in pairwise(positions)):
            raise ValueError(
                f"state_positions must be strictly ascending, got {positions}: sort, deduplicate"
            )
        elicitations = self.state_elicitations
        if elicitations is not None and len(elicitations) != len(positions):
            raise ValueError(
                f"state_elicitations must hold one for each of {len(positions)} states, got "
                f"{len(elicitations)}: pass None to use the common elicitation everywhere"
            )

    def elicitation(self, state: int, common: Sequence[int]) -> list[int]:
        """Return the token ids placed behind a state: its own, or else the common ones."""
        return list(common if self.state_elicitations is None else self.state_elicitations[state])


class Read(NamedTuple):
    """Logits at row position `position`, taken at `label`: one scored token of an answer."""

    position: int
    label: int
    rollout: int
    state: int
    hypothesis: int
    token: int


class Row(NamedTuple):
    """A sequence for the model, and what to read from it.

    Args:
        token_ids: Tokens to feed.
        position_ids: Depth of each token, from 0.
        ends: One past the row position of each token's last descendant.
        reads: The scored tokens. Answers that share tokens share positions.
    """

    token_ids: list[int]
    position_ids: list[int]
    ends: list[int]
    reads: list[Read]


def shared_prefix_rows(rollouts: Sequence[Rollout], elicitation_ids: Sequence[int]) -> list[Row]:
    """Pack every rollout that has answers into one row: the tree of its states and answers."""
    return [
        _tree(i, rollout, elicitation_ids) for i, rollout in enumerate(rollouts) if rollout.answers
    ]


def reencoded_rows(rollouts: Sequence[Rollout], elicitation_ids: Sequence[int]) -> list[Row]:
    """Write every (state, answer) out as a row of its own: state, elicitation, answer."""
    rows = []
    for i, rollout in enumerate(rollouts):
        for state, position in enumerate(rollout.state_positions):
            context = [*rollout.token_ids[:position], *rollout.elicitation(state, elicitation_ids)]
            for hypothesis, answer in enumerate(rollout.answers):
                tokens = [*context, *answer.token_ids[:-1]]  # the last is predicted, never fed
                size = len(tokens)
                reads = [
                    Read(len(context) - 1 + j, answer.token_ids[j], i, state, hypothesis, j)
                    for j in range(answer.score_from, len(answer.token_ids))
                ]
                rows.append(Row(tokens, list(range(size)), [size] * size, reads))
    return rows


def _tree(index: int, rollout: Rollout, elicitation_ids: Sequence[int]) -> Row:
    """Return the row of one rollout; its trunk stops at the last state."""
    forks = [0, *rollout.state_positions]
    row = Row(list(rollout.token_ids[: forks[-1]]), list(range(forks[-1])), [0] * forks[-1], [])
    for state in reversed(range(len(rollout.state_positions))):
        _append_branch(row, index, rollout, state, rollout.elicitation(state, elicitation_ids))
        # The branches to come are those of shallower states: they do not hold these tokens.
        start, stop = forks[state : state + 2]
        row.ends[start:stop] = [len(row.token_ids)] * (stop - start)
    return row


def _append_branch(
    row: Row, index: int, rollout: Rollout, state: int, elicitation: Sequence[int]
) -> None:
    """Append elicitation and answers of one state, leading tokens that answers share only once."""
    fork = rollout.state_positions[state] - 1
    # In lexicographic order an answer shares with its predecessor all that it shares with any
    # earlier one, and the nodes of the trie come in preorder. Its last token is never fed.
    fed = [[*elicitation, *answer.token_ids[:-1]] for answer in rollout.answers]
    path, nodes = [], [fork]  # current branch: its tokens; row positions of the fork and of these
    for hypothesis in sorted(range(len(fed)), key=fed.__getitem__):
        same = takewhile(lambda pair: pair[0] == pair[1], zip(path, fed[hypothesis], strict=False))
        shared = len(list(same))
        _close(row, nodes[1 + shared :])
        path, nodes = fed[hypothesis], nodes[: 1 + shared]
        for token in path[shared:]:
            row.position_ids.append(fork + len(nodes))
            nodes.append(len(row.token_ids))
            row.token_ids.append(token)
            row.ends.append(0)
        answer = rollout.answers[hypothesis]
        row.reads.extend(
            Read(nodes[len(elicitation) + j], answer.token_ids[j], index, state, hypothesis, j)
            for j in range(answer.score_from, len(answer.token_ids))
        )
    _close(row, nodes[1:])


def _close(row: Row, nodes: Sequence[int]) -> None:
    """End the given nodes: no token appended from now on descends from them."""
    for node in nodes:
        row.ends[node] = len(row.token_ids)


class MicroBatch(NamedTuple):
    """R right-padded rows of N tokens, and K reads; padding sees itself only.

    Args:
        token_ids: Tokens, 0 in padding.
        position_ids: Depths, 0 in padding.
        ends: See `Row`.
        attention_mask: False in padding.
        places: Row * N + row position of each read.
        labels: Token whose log-probability is read.
        targets: Rollout, state, hypothesis and answer token that each read belongs to.
    """

    token_ids: Int[Tensor, "R N"]
    position_ids: Int[Tensor, "R N"]
    ends: Int[Tensor, "R N"]
    attention_mask: Bool[Tensor, "R N"]
    places: Int[Tensor, " K"]
    labels: Int[Tensor, " K"]
    targets: Int[Tensor, "K 4"]

    def to(self, device: torch.device) -> "MicroBatch":
        """Return a copy on a device."""
        return MicroBatch(*(tensor.to(device) for tensor in self))


def micro_batches(
    rows: Sequence[Row], max_tokens: int, *, same_length: bool = False
) -> Iterator[MicroBatch]:
    """Group rows, shortest first, so that rows * longest <= max_tokens; a longer row goes alone.

    Args:
        rows: The rows, in any order.
        max_tokens: Budget of a micro-batch in tokens, padding included.
        same_length: Whether only rows of equal length may meet, so that nothing is padded.
    """
    group: list[Row] = []
    for row in sorted(rows, key=lambda row: len(row.token_ids)):
        size = len(row.token_ids)
        mixed = same_length and bool(group) and len(group[0].token_ids) < size
        if group and (mixed or (len(group) + 1) * size > max_tokens):
            yield _padded(group)
            group = []
        group.append(row)
    if group:
        yield _padded(group)


def _padded(rows: Sequence[Row]) -> MicroBatch:
    """Turn rows into tensors."""
    token_ids, position_ids, ends = (
        pad_sequence([torch.tensor(values) for values in column], batch_first=True)
        for column in list(zip(*rows, strict=True))[:3]
    )
    size = token_ids.shape[1]
    reads = [
        (i * size + read.position, *read[1:]) for i, row in enumerate(rows) for read in row.reads
    ]
    places, labels, *targets = torch.tensor(reads, dtype=torch.long).view(-1, 6).unbind(-1)
    return MicroBatch(
        token_ids,
        position_ids,
        torch.maximum(ends, torch.arange(1, size + 1)),
        torch.arange(size) < torch.tensor([[len(row.token_ids)] for row in rows]),
        places,
        labels,
        torch.stack(targets, -1),
    )


def tree_mask(
    ends: Int[Tensor, "B N"],
    position_ids: Int[Tensor, "B N"],
    *,
    window: int | None = None,
    chunk: int | None = None,
) -> Bool[Tensor, "B 1 N N"]:
    """Say which key (last axis) each query sees: `k <= q < end[k]`, within the layer's reach.

    Args:
        ends: One past the row position of each token's last descendant.
        position_ids: Depth of each token. Reach is measured in depth: a row holds other branches.
        window: Sliding window in tokens, the query included.
        chunk: Chunk size in tokens: a query sees no other chunk than its own.

    Examples:
        >>> ends = torch.tensor([[4, 2, 4, 4]])  # 1 and 2-3 are two branches of 0
        >>> tree_mask(ends, torch.tensor([[0, 1, 1, 2]]))[0, 0].int().tolist()
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]
    """
    places = torch.arange(ends.shape[1], device=ends.device)
    visible = (places <= places[:, None]) & (places[:, None] < ends[:, None, :])
    queries, keys = position_ids[:, :, None], position_ids[:, None, :]
    if window is not None:
        visible &= queries - keys < window
    if chunk is not None:
        visible &= queries // chunk == keys // chunk
    return visible[:, None]
