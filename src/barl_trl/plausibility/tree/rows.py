"""Rollouts and the answers asked for at their states as rows of tokens: ids in, rows out.

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

A row keeps the places of tokens whose keys and values are cached (`kv_cache`), though they are not
fed again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..queries import Rollout
from .answer_trie import Branch, answer_tokens, branch_of

Layout = Literal["packed", "masked", "plain"]
"""How rows are fed. `"packed"`: trees one after the other in one row, each block with attention of
its own. `"masked"`: trees below each other, with a mask. `"plain"`: sequences without branches.
"""

SHARE_FROM = 0.2
"""Share of the tokens that a shared prompt must save. Attention of a trunk after a shared prompt
is no plain causal attention, and costs what a fifth of the tokens would (benchmarks/RESULTS.md).
"""


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


class Block(NamedTuple):
    """A run of a row: a trunk from `start`, then its branches up to `stop`.

    Its tokens see nothing of the row but the block itself and, in front of it, the `shared` first
    tokens of the row.
    """

    shared: int
    start: int
    trunk_stop: int
    stop: int


class Row(NamedTuple):
    """A sequence for the model, and what to read from it.

    Args:
        token_ids: Tokens to feed.
        position_ids: Depth of each token, from 0.
        subtree_ends: One past the row position of each token's last descendant.
        scored: The scored tokens. Answers that share tokens share positions.
        blocks: The runs that the row consists of.
        num_cached: Number of leading tokens whose keys and values are cached.
        rollout: Index of the rollout in whose cache they are.
    """

    token_ids: list[int]
    position_ids: list[int]
    subtree_ends: list[int]
    scored: list[_ScoredToken]
    blocks: list[Block]
    num_cached: int = 0
    rollout: int = 0

    @property
    def size(self) -> int:
        """Number of tokens to feed."""
        return len(self.token_ids) - self.num_cached


def build_rows(
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    layout: Layout,
    *,
    max_tokens: int,
    num_cached: Sequence[int] = (),
) -> list[Row]:
    """Write rollouts as rows of a layout.

    Args:
        rollouts: The rollouts to score.
        elicitation_ids: Token ids of the common elicitation.
        layout: How the rows will be fed.
        max_tokens: Most tokens of one forward pass, which a row of several rollouts may not exceed.
        num_cached: Number of leading tokens of each rollout whose keys and values are cached.
    """
    if layout == "plain":
        return reencoded_rows(rollouts, elicitation_ids)
    # a mask over a whole group would cost more than the shared prompt saves
    max_shared = max_tokens if layout == "packed" and not num_cached else 0
    return shared_prefix_rows(
        rollouts, elicitation_ids, max_shared_tokens=max_shared, num_cached=num_cached
    )


def shared_prefix_rows(
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    *,
    max_shared_tokens: int = 0,
    num_cached: Sequence[int] = (),
) -> list[Row]:
    """Pack rollouts into rows: the trees of their states and answers.

    Rollouts with equal first state, elicitation and answers have that state scored once.

    Args:
        rollouts: The rollouts to score.
        elicitation_ids: Token ids of the common elicitation.
        max_shared_tokens: Most tokens of a row that holds several such rollouts. They share a row
            where that saves enough tokens ([`SHARE_FROM`]). With 0 every rollout has a row of its
            own.
        num_cached: Number of leading tokens of each rollout whose keys and values are cached.
    """
    groups: dict[tuple, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        if rollout.answers or rollout.scored_positions:
            first_state = tuple(rollout.token_ids[: rollout.state_positions[0]])
            elicitation = tuple(rollout.elicitation(0, elicitation_ids))
            key = first_state, elicitation, answer_tokens(rollout)
            groups.setdefault(key, []).append(i)
    rows = []
    for (first_state, *_), members in groups.items():
        sizes = [_size(rollouts[i], elicitation_ids) for i in members]
        shared = len(first_state)
        cuts = list(within_budget((s - shared for s in sizes), max_shared_tokens - shared))
        if shared * (len(members) - len(cuts)) < SHARE_FROM * sum(sizes):
            shared, cuts = 0, [slice(n, n + 1) for n in range(len(members))]
        for n, cut in enumerate(cuts):
            readers = members if n == 0 else []
            row = _tree(rollouts, members[cut], readers, elicitation_ids, shared)
            if not row.scored:
                continue
            if num_cached:  # what is read must be fed
                first, unread = members[cut][0], min(token.position for token in row.scored)
                length = min(num_cached[first], row.blocks[0].trunk_stop, unread)
                row = row._replace(num_cached=length, rollout=first)
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
    blocks = [Block(0, 0, size, size)]
    return Row(list(token_ids), list(range(size)), [size] * size, scored, blocks)


def within_budget(sizes: Iterable[int], budget: int) -> Iterator[slice]:
    """Cut a sequence into runs of at most `budget` in sum; what is larger stands alone.

    Example:
        >>> list(within_budget([3, 4, 2, 9, 1], 7))
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
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
    """Yield, for each scored token of a completion, its position in the rollout and what it is.

    These are its label, rollout, state (-1), hypothesis (-1) and index among the scored tokens.
    """
    for n, position in enumerate(rollout.scored_positions):
        yield position, rollout.token_ids[position], index, -1, -1, n


def _size(rollout: Rollout, elicitation_ids: Sequence[int]) -> int:
    """Return the number of tokens of a rollout's tree if its answers shared none: the most."""
    answers = sum(len(answer.token_ids) - 1 for answer in rollout.answers)
    branches = (
        len(rollout.elicitation(state, elicitation_ids)) + answers
        for state in range(len(rollout.state_positions))
    )
    return rollout.trunk_length + (sum(branches) if rollout.answers else 0)


def _tree(
    rollouts: Sequence[Rollout],
    members: Sequence[int],
    readers: Sequence[int],
    elicitation_ids: Sequence[int],
    shared: int,
) -> Row:
    """Return the row of one rollout, or of several with the same first tokens.

    Args:
        rollouts: All rollouts.
        members: Indices of the rollouts in the row.
        readers: Indices of the rollouts for which the branch of s_0 is read; without any the row
            has no such branch.
        elicitation_ids: Token ids of the common elicitation.
        shared: Number of first tokens that the members share in the row; 0 for a single member.
    """
    row = Row([], [], [], [], [])
    if shared:
        first = rollouts[members[0]]
        asked = {0: readers} if readers else {}
        _append_block(row, first, 0, shared, asked, elicitation_ids)
    for i in members:
        rollout = rollouts[i]
        asked: dict[int, Sequence[int]] = {s: [i] for s in range(1, len(rollout.state_positions))}
        if readers and not shared:
            asked[0] = readers
        shift = len(row.token_ids) - shared
        if rollout.trunk_length > shared:
            _append_block(row, rollout, shared, rollout.trunk_length, asked, elicitation_ids)
        for position, *target in _completion_tokens(rollout, i):
            row.scored.append(_ScoredToken(position - 1 + shift * (position > shared), *target))
    row.subtree_ends[:shared] = [len(row.token_ids)] * shared
    return row


def _append_block(
    row: Row,
    rollout: Rollout,
    start: int,
    stop: int,
    asked: Mapping[int, Sequence[int]],
    elicitation_ids: Sequence[int],
) -> None:
    """Append the tokens `start` to `stop` of a rollout, and the branches of the states asked.

    `asked` maps each such state to the rollouts for which its branch is read.
    """
    shift, answers = len(row.token_ids) - start, answer_tokens(rollout)
    row.token_ids.extend(rollout.token_ids[start:stop])
    row.position_ids.extend(range(start, stop))
    trunk_stop = len(row.token_ids)
    row.subtree_ends.extend([trunk_stop] * (stop - start))
    for state in sorted(asked if answers else (), reverse=True):
        fork = rollout.state_positions[state]
        branch = branch_of(tuple(rollout.elicitation(state, elicitation_ids)), answers)
        _append_branch(row, shift + fork - 1, branch, state, asked[state])
        # The branches to come are those of shallower states, which do not see these tokens.
        row.subtree_ends[shift + start : shift + fork] = [len(row.token_ids)] * (fork - start)
    row.blocks.append(Block(start, shift + start, trunk_stop, len(row.token_ids)))


def _append_branch(row: Row, fork: int, branch: Branch, state: int, readers: Sequence[int]) -> None:
    """Append the branch of a state, which hangs from the token at row position `fork`."""
    start, depth = len(row.token_ids), row.position_ids[fork]
    row.token_ids.extend(branch.token_ids)
    row.position_ids.extend(depth + below for below in branch.depths)
    row.subtree_ends.extend(start + end for end in branch.subtree_ends)
    row.scored.extend(
        _ScoredToken(fork if place < 0 else start + place, label, reader, state, hypothesis, token)
        for place, label, hypothesis, token in branch.scored
        for reader in readers
    )
