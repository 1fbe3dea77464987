"""Rollouts and the answers asked for at their states as rows of tokens: ids in, tensors out.

A rollout and its answers form a tree. The trunk is the rollout; behind each state hangs a branch:
the elicitation, then a trie of the answers. One row holds the tree in preorder, deepest fork first:

    s_0 | step 0 | step 1 | branch of s_2 | branch of s_1 | branch of s_0

The descendants of a token are then the run of tokens right behind it, so one int per token, its
`end`, says who sees whom: the key k is visible to the query q iff `k <= q < end[k]`. That holds for
trunk, branches, shared answer tokens and padding alike. Position ids are depths in the tree.

Rollouts of a group have s_0 and its branch in common. The branch hangs from the first of them only;
where the prompt is shared, too, the group is one tree of several blocks:

    s_0 | branch of s_0 || step 0 | step 1 | branch of s_2 | branch of s_1 || step 0 | ...

Of tokens whose keys and values are known (`generation_cache`) a row knows the places, too, though
they are not fed again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .branches import Branch, asked_answers, branch_of
from .rollouts import Rollout

SHARE_FROM = 0.2
"""Share of the tokens that a shared prompt must save. Attention of a trunk behind a shared prompt
is no plain causal attention, and costs what a fifth of the tokens would (benchmarks/RESULTS.md).
"""


class Read(NamedTuple):
    """Logits at row position `position`, taken at `label`: one scored token of an answer.

    Of a completion's own token, state and hypothesis are -1; `token` counts from `read_from`.
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
        ends: One past the row position of each token's last descendant.
        reads: The scored tokens. Answers that share tokens share positions.
        blocks: The runs that the row consists of.
        known: How many of the first tokens have known keys and values: those of `rollout`.
        rollout: Whose they are.
    """

    token_ids: list[int]
    position_ids: list[int]
    ends: list[int]
    reads: list[Read]
    blocks: list[Block]
    known: int = 0
    rollout: int = 0

    @property
    def size(self) -> int:
        """Number of tokens to feed."""
        return len(self.token_ids) - self.known


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


def shared_prefix_rows(
    rollouts: Sequence[Rollout],
    elicitation_ids: Sequence[int],
    *,
    max_shared_tokens: int = 0,
    known: Sequence[int] = (),
) -> list[Row]:
    """Pack rollouts into rows: the trees of their states and answers.

    Rollouts with equal first state, elicitation and answers have that state scored once.

    Args:
        rollouts: What to score.
        elicitation_ids: The common elicitation.
        max_shared_tokens: Up to how many tokens such rollouts stand in one row behind their first
            state, where that saves enough of them. With 0 every rollout has a row of its own.
        known: Number of leading tokens of each rollout whose keys and values are known.
    """
    groups: dict[tuple, list[int]] = {}
    for i, rollout in enumerate(rollouts):
        if rollout.answers or rollout.read_positions:
            first_state = tuple(rollout.token_ids[: rollout.state_positions[0]])
            elicitation = tuple(rollout.elicitation(0, elicitation_ids))
            key = first_state, elicitation, asked_answers(rollout)
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
            if not row.reads:
                continue
            if known:  # what is read must be fed
                first, unread = members[cut][0], min(read.position for read in row.reads)
                length = min(known[first], row.blocks[0].trunk_stop, unread)
                row = row._replace(known=length, rollout=first)
            rows.append(row)
    return rows


def reencoded_rows(rollouts: Sequence[Rollout], elicitation_ids: Sequence[int]) -> list[Row]:
    """Write every (state, answer) out as a row of its own: state, elicitation, answer."""
    rows = []
    for i, rollout in enumerate(rollouts):
        reads = [Read(p - 1, *read) for p, *read in _own_reads(rollout, i)]
        if reads:
            rows.append(_plain_row(rollout.token_ids[:-1], reads))
        for state, position in enumerate(rollout.state_positions):
            context = [*rollout.token_ids[:position], *rollout.elicitation(state, elicitation_ids)]
            for hypothesis, answer in enumerate(rollout.answers):
                reads = [
                    Read(len(context) - 1 + j, answer.token_ids[j], i, state, hypothesis, j)
                    for j in range(answer.score_from, len(answer.token_ids))
                ]
                # the last is predicted, never fed
                rows.append(_plain_row([*context, *answer.token_ids[:-1]], reads))
    return rows


def _plain_row(token_ids: Sequence[int], reads: list[Read]) -> Row:
    size = len(token_ids)
    return Row(list(token_ids), list(range(size)), [size] * size, reads, [Block(0, 0, size, size)])


def _own_reads(rollout: Rollout, index: int) -> Iterator[tuple[int, ...]]:
    """Position in the rollout, then label and target, of each of its own tokens that is read."""
    for n, position in enumerate(rollout.read_positions):
        yield position, rollout.token_ids[position], index, -1, -1, n


def _size(rollout: Rollout, elicitation_ids: Sequence[int]) -> int:
    """Upper bound of the tokens of a rollout's tree: as if its answers shared none."""
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
    """Return the row of some rollouts, one unless their first `shared` tokens are shared.

    Args:
        rollouts: All of them.
        members: Which ones the row holds.
        readers: Those for which its branch of s_0 is read; without any it has none.
        elicitation_ids: The common elicitation.
        shared: Length of the shared prompt.
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
        for position, *read in _own_reads(rollout, i):
            row.reads.append(Read(position - 1 + shift * (position > shared), *read))
    row.ends[:shared] = [len(row.token_ids)] * shared
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

    Args:
        row: What to append to.
        rollout: The rollout.
        start: First token.
        stop: One past the last.
        asked: Of each such state, the rollouts for which its branch is read.
        elicitation_ids: The common elicitation.
    """
    shift, answers = len(row.token_ids) - start, asked_answers(rollout)
    row.token_ids.extend(rollout.token_ids[start:stop])
    row.position_ids.extend(range(start, stop))
    trunk_stop = len(row.token_ids)
    row.ends.extend([trunk_stop] * (stop - start))
    for state in sorted(asked if answers else (), reverse=True):
        fork = rollout.state_positions[state]
        branch = branch_of(tuple(rollout.elicitation(state, elicitation_ids)), answers)
        _append_branch(row, shift + fork - 1, branch, state, asked[state])
        # The branches to come are those of shallower states: they do not hold these tokens.
        row.ends[shift + start : shift + fork] = [len(row.token_ids)] * (fork - start)
    row.blocks.append(Block(start, shift + start, trunk_stop, len(row.token_ids)))


def _append_branch(row: Row, fork: int, branch: Branch, state: int, readers: Sequence[int]) -> None:
    """Append what is asked of one state."""
    start, depth = len(row.token_ids), row.position_ids[fork]
    row.token_ids.extend(branch.token_ids)
    row.position_ids.extend(depth + below for below in branch.depths)
    row.ends.extend(start + end for end in branch.ends)
    row.reads.extend(
        Read(fork if place < 0 else start + place, label, reader, state, hypothesis, token)
        for place, label, hypothesis, token in branch.reads
        for reader in readers
    )
