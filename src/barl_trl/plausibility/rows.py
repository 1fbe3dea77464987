"""Rollouts and the answers asked for at their states as rows of tokens: ids in, tensors out.

A rollout and its answers form a tree. The trunk is the rollout. Behind each state hangs a branch:
the elicitation, then a trie of the answers. One row holds the tree in preorder, deepest fork first:

    s_0 | step 0 | step 1 | branch of s_2 | branch of s_1 | branch of s_0

The descendants of a token are then the run of tokens right after it, so one int per token, its
`subtree_end`, says who sees whom: the key k is visible to the query q iff
`k <= q < subtree_end[k]`. That holds for trunk, branches, shared answer tokens and padding alike.
Position ids are depths in the tree.

Rollouts of a group have s_0 and its branch in common. The branch hangs from the first of them only.
Where the prompt is shared too, the group is one tree of several blocks:

    s_0 | branch of s_0 || step 0 | step 1 | branch of s_2 | branch of s_1 || step 0 | ...
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, compress, count
from operator import ne
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .queries import Rollout

Layout = Literal["packed", "masked", "plain"]
"""`"packed"`: trees one after the other in one row, each block with attention of its own.
`"masked"`: trees below each other, with a mask. `"plain"`: sequences without branches.
"""

SHARE_FROM = 0.2
"""Share of the tokens that a shared prompt must save, since attention behind it needs masks."""

_AnswerTokens = tuple[tuple[int, ...], int]
"""Tokens of an answer, and the number of leading ones that are not scored."""


class Feeding(NamedTuple):
    """How rows are fed: their layout, and whether only rows of equal length meet in a batch."""

    layout: Layout
    same_length: bool = False


class _ScoredToken(NamedTuple):
    """A token whose log-probability is read: `label`, from the logits at row position `position`.

    `token` is its index in the answer. A completion's token has state and hypothesis -1, and its
    index is counted from the rollout's `score_from`.
    """

    position: int
    label: int
    rollout: int
    state: int
    hypothesis: int
    token: int


class _Block(NamedTuple):
    """A run of a row: a trunk from `start`, then its branches up to `stop`, fed for a `rollout`.

    Its tokens see nothing of the row but the block itself and, in front of it, the `shared` first
    tokens of the row.
    """

    shared: int
    start: int
    trunk_stop: int
    stop: int
    rollout: int


class Row(NamedTuple):
    """A sequence for the model, and what to read from it."""

    token_ids: list[int]
    position_ids: list[int]  # depth of each token, from 0
    subtree_ends: list[int]  # one past the row position of each token's last descendant
    scored: list[_ScoredToken]  # answers that share tokens share positions
    blocks: list[_Block]  # the runs that the row consists of

    @property
    def size(self) -> int:
        """Number of tokens to feed."""
        return len(self.token_ids)


class _Branch(NamedTuple):
    """What is asked of a state: the elicitation, then a trie of the answers."""

    token_ids: list[int]
    depths: list[int]  # below the fork, from 1
    subtree_ends: list[int]  # one past the place of each token's last descendant in the branch
    scored: list[tuple[int, int, int, int]]  # place (-1: the fork), label, hypothesis, answer token


# Rows


def build_rows(
    rollouts: Sequence[Rollout], elicitation_ids: Sequence[int], layout: Layout, max_tokens: int
) -> list[Row]:
    """Write rollouts as rows of a layout; one of several rollouts has at most `max_tokens`."""
    if layout == "plain":
        return reencoded_rows(rollouts, elicitation_ids)
    # a mask over a whole group would cost more than the shared prompt saves
    max_shared_tokens = max_tokens if layout == "packed" else 0
    return shared_prefix_rows(rollouts, elicitation_ids, max_shared_tokens=max_shared_tokens)


def shared_prefix_rows(
    rollouts: Sequence[Rollout], elicitation_ids: Sequence[int], *, max_shared_tokens: int = 0
) -> list[Row]:
    """Pack rollouts into rows: the trees of their states and answers.

    Rollouts with equal first state, elicitation and answers have that state scored once. Several
    share a row of at most `max_shared_tokens` where that saves enough tokens ([`SHARE_FROM`]).
    """
    groups: dict[tuple, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        if rollout.answers or rollout.scored_positions:
            first_state = tuple(rollout.token_ids[: rollout.state_positions[0]])
            elicitation = tuple(rollout.elicitation(0, elicitation_ids))
            key = first_state, elicitation, _answer_tokens(rollout)
            groups.setdefault(key, []).append(i)
    rows = []
    for (first_state, *_), members in groups.items():
        sizes = [_size(rollouts[i], elicitation_ids) for i in members]
        shared = len(first_state)
        cuts = list(_within_budget((s - shared for s in sizes), max_shared_tokens - shared))
        if shared * (len(members) - len(cuts)) < SHARE_FROM * sum(sizes):
            shared, cuts = 0, [slice(n, n + 1) for n in range(len(members))]
        for n, cut in enumerate(cuts):
            readers = members if n == 0 else []
            row = _tree(rollouts, members[cut], readers, elicitation_ids, shared)
            if row.scored:
                rows.append(row)
    return rows


def reencoded_rows(rollouts: Sequence[Rollout], elicitation_ids: Sequence[int]) -> list[Row]:
    """Write every (state, answer) as a row of its own: state, elicitation, answer."""
    rows = []
    for i, rollout in enumerate(rollouts):
        scored = [_ScoredToken(p - 1, *target) for p, *target in _completion_tokens(rollout, i)]
        if scored:
            rows.append(plain_row(rollout.token_ids[:-1], scored))
        for state, position in enumerate(rollout.state_positions):
            context = [*rollout.token_ids[:position], *rollout.elicitation(state, elicitation_ids)]
            for hypothesis, answer in enumerate(rollout.answers):
                scored = [
                    _ScoredToken(len(context) - 1 + j, answer.token_ids[j], i, state, hypothesis, j)
                    for j in range(answer.score_from, len(answer.token_ids))
                ]
                # the last is predicted, never fed
                rows.append(plain_row([*context, *answer.token_ids[:-1]], scored))
    return rows


def plain_row(token_ids: Sequence[int], scored: list[_ScoredToken]) -> Row:
    """Return a sequence without branches as a row."""
    size = len(token_ids)
    blocks = [_Block(0, 0, size, size, scored[0].rollout if scored else 0)]
    return Row(list(token_ids), list(range(size)), [size] * size, scored, blocks)


def _within_budget(sizes: Iterable[int], budget: int) -> Iterator[slice]:
    """Cut a sequence into runs of at most `budget` in sum; what is larger stands alone."""
    start = stop = total = 0
    for size in sizes:
        if stop > start and total + size > budget:
            yield slice(start, stop)
            start, total = stop, 0
        total += size
        stop += 1
    if stop > start:
        yield slice(start, stop)


def _completion_tokens(rollout: Rollout, index: int) -> Iterator[tuple[int, ...]]:
    """Yield the position of each scored token of a completion, and the rest of its fields."""
    for n, position in enumerate(rollout.scored_positions):
        yield position, rollout.token_ids[position], index, -1, -1, n


def _answer_tokens(rollout: Rollout) -> tuple[_AnswerTokens, ...]:
    """Return the answers that a rollout's states are asked for, in a form that can be a key."""
    return tuple((tuple(answer.token_ids), answer.score_from) for answer in rollout.answers)


def _size(rollout: Rollout, elicitation_ids: Sequence[int]) -> int:
    """Return the number of tokens of a rollout's tree if its answers shared none: the most."""
    answers = sum(len(answer.token_ids) - 1 for answer in rollout.answers)
    branches = (
        len(rollout.elicitation(state, elicitation_ids)) + answers
        for state in range(len(rollout.state_positions))
    )
    return rollout.trunk_length + (sum(branches) if rollout.answers else 0)


# Trees


def _tree(
    rollouts: Sequence[Rollout],
    members: Sequence[int],
    readers: Sequence[int],
    elicitation_ids: Sequence[int],
    shared: int,
) -> Row:
    """Return the row of one rollout, or of several members that share their first tokens.

    The branch of s_0 is read for the `readers`; without any the row has no such branch.
    """
    row = Row([], [], [], [], [])
    if shared:
        asked = {0: readers} if readers else {}
        _append_block(row, rollouts, members[0], slice(0, shared), asked, elicitation_ids)
    for i in members:
        rollout = rollouts[i]
        asked: dict[int, Sequence[int]] = {s: [i] for s in range(1, len(rollout.state_positions))}
        if readers and not shared:
            asked[0] = readers
        shift = len(row.token_ids) - shared
        if rollout.trunk_length > shared:
            own = slice(shared, rollout.trunk_length)
            _append_block(row, rollouts, i, own, asked, elicitation_ids)
        for position, *target in _completion_tokens(rollout, i):
            row.scored.append(_ScoredToken(position - 1 + shift * (position > shared), *target))
    row.subtree_ends[:shared] = [len(row.token_ids)] * shared
    return row


def _append_block(
    row: Row,
    rollouts: Sequence[Rollout],
    index: int,
    part: slice,
    asked: Mapping[int, Sequence[int]],
    elicitation_ids: Sequence[int],
) -> None:
    """Append a part of the tokens of a rollout, and the branches of the states asked.

    `asked` maps each such state to the rollouts for which its branch is read.
    """
    rollout, start, stop = rollouts[index], part.start, part.stop
    shift, answers = len(row.token_ids) - start, _answer_tokens(rollout)
    row.token_ids.extend(rollout.token_ids[start:stop])
    row.position_ids.extend(range(start, stop))
    trunk_stop = len(row.token_ids)
    row.subtree_ends.extend([trunk_stop] * (stop - start))
    for state in sorted(asked if answers else (), reverse=True):
        fork = rollout.state_positions[state]
        branch = _branch_of(tuple(rollout.elicitation(state, elicitation_ids)), answers)
        first = len(row.token_ids)
        row.token_ids.extend(branch.token_ids)
        row.position_ids.extend(fork - 1 + below for below in branch.depths)
        row.subtree_ends.extend(first + end for end in branch.subtree_ends)
        row.scored.extend(
            _ScoredToken(
                shift + fork - 1 if place < 0 else first + place, label, reader, state, *to
            )
            for place, label, *to in branch.scored
            for reader in asked[state]
        )
        # The branches to come are those of shallower states, which do not see these tokens.
        row.subtree_ends[shift + start : shift + fork] = [len(row.token_ids)] * (fork - start)
    row.blocks.append(_Block(start, shift + start, trunk_stop, len(row.token_ids), index))


@lru_cache(maxsize=64)
def _branch_of(elicitation: tuple[int, ...], answers: tuple[_AnswerTokens, ...]) -> _Branch:
    """Return the branch of an elicitation and answers; leading tokens that answers share come once.

    The last branches are kept: a group's rollouts ask the same of all their states.
    """
    # In lexicographic order an answer shares with its predecessor all that it shares with any
    # earlier one, and the nodes of the trie come in preorder. An answer's last token is never fed.
    fed = [(*elicitation, *token_ids[:-1]) for token_ids, _ in answers]
    branch = _Branch([], [], [], [])
    path, nodes = (), []  # tokens of the current answer, and their places in the branch
    for hypothesis in sorted(range(len(fed)), key=fed.__getitem__):
        differ = compress(count(), map(ne, path, fed[hypothesis]))
        shared = next(differ, min(len(path), len(fed[hypothesis])))
        _close(branch, nodes[shared:])
        path, nodes = fed[hypothesis], nodes[:shared]
        for token in path[shared:]:
            nodes.append(len(branch.token_ids))
            branch.token_ids.append(token)
            branch.depths.append(len(nodes))
            branch.subtree_ends.append(0)
        token_ids, score_from = answers[hypothesis]
        places = [-1, *nodes][len(elicitation) :]
        branch.scored.extend(
            (places[j], token_ids[j], hypothesis, j) for j in range(score_from, len(token_ids))
        )
    _close(branch, nodes)
    return branch


def _close(branch: _Branch, nodes: Sequence[int]) -> None:
    """End the given nodes: no token appended from now on descends from them."""
    for node in nodes:
        branch.subtree_ends[node] = len(branch.token_ids)


# Micro-batches


class MicroBatch(NamedTuple):
    """R right-padded rows of N tokens, and K scored tokens; padding sees itself only."""

    token_ids: Int[Tensor, "R N"]  # 0 in padding
    position_ids: Int[Tensor, "R N"]  # depths, 0 in padding
    subtree_ends: Int[Tensor, "R N"]  # one past the row position of each one's last descendant
    attention_mask: Bool[Tensor, "R N"]  # False in padding
    places: Int[Tensor, " K"]  # row * N + row position of each scored token's logits
    labels: Int[Tensor, " K"]  # the scored tokens
    targets: Int[Tensor, "K 4"]  # their rollout, state, hypothesis and answer token
    rows: list[tuple[int, Row]]  # those joined to one, and where each begins; empty if padded

    @property
    def is_completion(self) -> Bool[Tensor, " K"]:
        """Which scored tokens are a completion's, and no answer's."""
        return self.targets[:, 1] < 0


def micro_batches(rows: Sequence[Row], feeding: Feeding, max_tokens: int) -> Iterator[MicroBatch]:
    """Group rows into batches of at most `max_tokens`, padding included; a longer row goes alone.

    Packed rows are joined in order. Others are padded, the shortest first.
    """
    if feeding.layout == "packed":
        cuts = _within_budget((row.size for row in rows), max_tokens)
        yield from (_joined(rows[cut]) for cut in cuts)
        return
    group: list[Row] = []
    for row in sorted(rows, key=lambda row: row.size):
        mixed = feeding.same_length and bool(group) and group[0].size < row.size
        if group and (mixed or (len(group) + 1) * row.size > max_tokens):
            yield _padded(group)
            group = []
        group.append(row)
    if group:
        yield _padded(group)


def _joined(rows: Sequence[Row]) -> MicroBatch:
    """Return rows as one micro-batch, one after the other."""
    sizes = [row.size for row in rows]
    *starts, _ = accumulate(sizes, initial=0)
    token_ids, position_ids, ends = (
        _int_tensor([*chain.from_iterable(column)])[None]
        for column in list(zip(*rows, strict=True))[:3]
    )
    ends = ends + torch.tensor(starts).repeat_interleave(torch.tensor(sizes))
    mask, places = torch.ones_like(token_ids, dtype=torch.bool), [*zip(starts, rows, strict=True)]
    return MicroBatch(token_ids, position_ids, ends, mask, *_scored_tokens(rows, starts), places)


def _padded(rows: Sequence[Row]) -> MicroBatch:
    """Return rows as one micro-batch, padded on the right."""
    token_ids, position_ids, ends = (
        pad_sequence([_int_tensor(values) for values in column], batch_first=True)
        for column in list(zip(*rows, strict=True))[:3]
    )
    size = token_ids.shape[1]
    ends = torch.maximum(ends, torch.arange(1, size + 1))
    mask = torch.arange(size) < torch.tensor([[row.size] for row in rows])
    scored = _scored_tokens(rows, [i * size for i in range(len(rows))])
    return MicroBatch(token_ids, position_ids, ends, mask, *scored, rows=[])


def _scored_tokens(rows: Sequence[Row], starts: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return places, labels and targets of rows that begin at the given places."""
    scored = [
        (start + token.position, *token[1:])
        for row, start in zip(rows, starts, strict=True)
        for token in row.scored
    ]
    places, labels, *targets = _int_tensor(scored).view(-1, 6).unbind(-1)
    return places, labels, torch.stack(targets, -1)


def _int_tensor(values: Sequence[object]) -> Tensor:
    """Return integers as an int64 tensor; `torch.tensor` takes several times as long."""
    return torch.from_numpy(np.array(values, dtype=np.int64))
