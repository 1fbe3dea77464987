"""What is asked of a state, as tokens: the elicitation, then a trie of the answers."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from .rollouts import Rollout

Asked = tuple[tuple[tuple[int, ...], int], ...]
"""Tokens of each answer, and from which on they are scored."""


class Branch(NamedTuple):
    """What is asked of a state: the elicitation, then a trie of the answers.

    Args:
        token_ids: Tokens to feed.
        depths: How far below the fork each of them is, from 1.
        ends: As those of a row, counted from the branch's first token.
        reads: Place, label, hypothesis and answer token of each scored one. Place -1 is the fork.
    """

    token_ids: list[int]
    depths: list[int]
    ends: list[int]
    reads: list[tuple[int, int, int, int]]


def asked_answers(rollout: Rollout) -> Asked:
    """Return what a rollout's states are asked for."""
    return tuple((tuple(answer.token_ids), answer.score_from) for answer in rollout.answers)


@lru_cache(maxsize=64)
def branch_of(elicitation: tuple[int, ...], answers: Asked) -> Branch:
    """Return the branch of an elicitation and answers; leading tokens that answers share come once.

    Kept, for a group's rollouts ask the same of all their states.
    """
    # In lexicographic order an answer shares with its predecessor all that it shares with any
    # earlier one, and the nodes of the trie come in preorder. Its last token is never fed.
    fed = [(*elicitation, *token_ids[:-1]) for token_ids, _ in answers]
    branch = Branch([], [], [], [])
    path, nodes = (), []  # of the current answer: tokens and their places
    for hypothesis in sorted(range(len(fed)), key=fed.__getitem__):
        shared = common_length(path, fed[hypothesis])
        _close(branch, nodes[shared:])
        path, nodes = fed[hypothesis], nodes[:shared]
        for token in path[shared:]:
            nodes.append(len(branch.token_ids))
            branch.token_ids.append(token)
            branch.depths.append(len(nodes))
            branch.ends.append(0)
        token_ids, score_from = answers[hypothesis]
        places = [-1, *nodes][len(elicitation) :]
        branch.reads.extend(
            (places[j], token_ids[j], hypothesis, j) for j in range(score_from, len(token_ids))
        )
    _close(branch, nodes)
    return branch


def _close(branch: Branch, nodes: Sequence[int]) -> None:
    """End the given nodes: no token appended from now on descends from them."""
    for node in nodes:
        branch.ends[node] = len(branch.token_ids)


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the leading tokens that two sequences share.

    Example:
        >>> common_length([1, 2, 3], [1, 2, 4, 3])
        2
    """
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return sum(1 for _ in same)
