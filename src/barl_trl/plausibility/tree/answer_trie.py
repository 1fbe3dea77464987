"""What is asked of one state, as tokens: the elicitation, then a trie of the answers."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, count
from operator import ne
from typing import NamedTuple

from ..queries import Rollout

_AnswerTokens = tuple[tuple[int, ...], int]
"""Tokens of an answer, and the number of leading ones that are not scored."""


class Branch(NamedTuple):
    """What is asked of a state: the elicitation, then a trie of the answers.

    Args:
        token_ids: Tokens to feed.
        depths: Depth of each token below the fork, from 1.
        subtree_ends: One past the last descendant of each token, counted from the branch's first
            token.
        scored: Place, label, hypothesis and answer token of each scored token. Place -1 is the
            fork.
    """

    token_ids: list[int]
    depths: list[int]
    subtree_ends: list[int]
    scored: list[tuple[int, int, int, int]]


def answer_tokens(rollout: Rollout) -> tuple[_AnswerTokens, ...]:
    """Return the answers that a rollout's states are asked for, in a form that can be a key."""
    return tuple((tuple(answer.token_ids), answer.score_from) for answer in rollout.answers)


@lru_cache(maxsize=64)
def branch_of(elicitation: tuple[int, ...], answers: tuple[_AnswerTokens, ...]) -> Branch:
    """Return the branch of an elicitation and answers; leading tokens that answers share come once.

    The last branches are kept: a group's rollouts ask the same of all their states.
    """
    # In lexicographic order an answer shares with its predecessor all that it shares with any
    # earlier one, and the nodes of the trie come in preorder. An answer's last token is never fed.
    fed = [(*elicitation, *token_ids[:-1]) for token_ids, _ in answers]
    branch = Branch([], [], [], [])
    path, nodes = (), []  # tokens of the current answer, and their places in the branch
    for hypothesis in sorted(range(len(fed)), key=fed.__getitem__):
        shared = common_length(path, fed[hypothesis])
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


def _close(branch: Branch, nodes: Sequence[int]) -> None:
    """End the given nodes: no token appended from now on descends from them."""
    for node in nodes:
        branch.subtree_ends[node] = len(branch.token_ids)


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the leading tokens that two sequences share.

    Example:
        >>> common_length([1, 2, 3], [1, 2, 4, 3])
        2
    """
    differ = compress(count(), map(ne, first, second))
    return next(differ, min(len(first), len(second)))
