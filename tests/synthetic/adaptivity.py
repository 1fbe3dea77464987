r"""Definitions 1 and 2 of the paper as checks of a policy on a [`DecisionTree`].

A policy is a table: history -> probability of each action. Both definitions speak of every history,
and which ones that are makes a difference: [`tabulate`] lists those that the policy itself meets,
or all that can occur.

Where an episode goes on, every reward so far was 0. So $r_{0:t-1}$ in definition 2 tells the number
of steps t and nothing else; what was tried is in the nodes.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import combinations

from barl_trl.synthetic.decision_tree import DecisionTree, History

Distribution = Mapping[str, float]
Policy = Mapping[History, Distribution]


def tabulate(
    tree: DecisionTree,
    choose: Callable[[History], Distribution],
    *,
    horizon: int,
    off_policy: bool = False,
) -> dict[History, Distribution]:
    """The histories of an episode that goes on, with a policy's actions.

    Args:
        tree: The tree.
        choose: The policy; actions that it leaves out have probability 0.
        horizon: Number of steps of an episode.
        off_policy: Also the histories that the policy itself never meets.
    """

    def histories(history: History) -> Iterator[History]:
        if len(history) > horizon or not tree.untried(history):
            return
        yield history
        for action, node in tree.moves[history[-1]].items():
            if off_policy or choose(history).get(action, 0) > 0:
                yield from histories((*history, node))

    return {
        history: {action: p for action, p in choose(history).items() if p > 0}
        for history in histories((0,))
    }


def is_markovian(policy: Policy) -> bool:
    """Whether the actions depend on the node alone."""
    return _depends_only_on(policy, lambda history: history[-1])


def is_uncertainty_adaptive(tree: DecisionTree, policy: Policy) -> bool:
    r"""Definition 1: $\pi(a_t | h_t) = \mu(a_t | s(h_t), b(h_t))$ for a $\mu$ and all histories."""
    # the belief is uniform over the untried leaves, so they tell it
    return _depends_only_on(policy, lambda history: (history[-1], tree.untried(history)))


def is_strictly_uncertainty_adaptive(tree: DecisionTree, policy: Policy) -> bool:
    """Definition 1, second half: uncertainty-adaptive, and not by the node alone.

    The paper has "strictly uncertainty-adaptive, or equivalently, not Markovian". That holds among
    uncertainty-adaptive policies; a policy that counts steps is neither.
    """
    return is_uncertainty_adaptive(tree, policy) and not is_markovian(policy)


def exhibits_reflective_exploration(policy: Policy) -> bool:
    r"""Definition 2: two histories of different length, the same $\varphi(s_t)$, different actions.

    Its conditions on $\varphi$, here the node itself, which is the latent state:

    1. $\pi(\cdot | h_t) = \vartheta(\cdot | \varphi(s_t), r_{0:t-1})$, checked as it stands: the
       actions depend on $(\varphi(s_t), t)$ alone.
    2. Minimality, "if $\pi(\cdot | h_t) = \upsilon(\cdot | X_t)$ then $X_t = \psi(\varphi(s_t))$",
       holds for $X_t = s_t$, as in the proof of theorem 1. For every process it cannot be met: with
       $X_t = h_t$, equal $\varphi$ would mean equal histories, and no policy would be reflective.
    """
    factorises = _depends_only_on(policy, lambda history: (history[-1], len(history)))
    return factorises and any(
        len(one) != len(other) and one[-1] == other[-1] and policy[one] != policy[other]
        for one, other in combinations(policy, 2)
    )


def _depends_only_on(policy: Policy, key: Callable[[History], Hashable]) -> bool:
    seen: dict[Hashable, Distribution] = {}
    return all(seen.setdefault(key(h), actions) == actions for h, actions in policy.items())
