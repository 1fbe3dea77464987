"""What is asked of a model: rollouts as token ids, their states, and answers at each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Answer:
    """The tokens of a hypothesis's answer `{y}.`.

    Args:
        token_ids: The answer's tokens.
        score_from: Number of leading tokens that are forced and not scored.

    Raises:
        ValueError: If no token is left to score.
    """

    token_ids: Sequence[int]
    score_from: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.score_from < len(self.token_ids):
            raise ValueError(
                f"score_from must be at least 0 and below {len(self.token_ids)}, the number of "
                f"token_ids, got {self.score_from}: leave at least one token to score."
            )


@dataclass(frozen=True)
class Rollout:
    """One rollout, its states, and the answers to score at each of them.

    Args:
        token_ids: Prompt + completion, no padding.
        state_positions: Number of leading tokens that each state holds, strictly ascending.
        answers: The hypotheses' answers; index 0 is the ground truth. May be empty.
        state_elicitations: Token ids of each state's elicitation; None: all states get the common
            one.
        score_from: Also score every token after this many leading ones. The prompt's length gives
            the log-probabilities of the completion; `None` gives none.

    Raises:
        ValueError: If a field breaks these rules.
    """

    token_ids: Sequence[int]
    state_positions: Sequence[int]
    answers: Sequence[Answer]
    state_elicitations: Sequence[Sequence[int]] | None = None
    score_from: int | None = None

    def __post_init__(self) -> None:
        positions, length = list(self.state_positions), len(self.token_ids)
        if length == 0:
            raise ValueError("token_ids must not be empty, got []: a rollout starts with a prompt.")
        bounds = pairwise([0, *positions, length + 1])
        if not positions or any(later <= earlier for earlier, later in bounds):
            raise ValueError(
                f"state_positions must be one or more, strictly ascending from 1 to {length}, got "
                f"{positions}: give the number of leading token_ids that each state holds."
            )
        elicitations = self.state_elicitations
        if elicitations is not None and len(elicitations) != len(positions):
            raise ValueError(
                f"state_elicitations must hold one for each of {len(positions)} states, got "
                f"{len(elicitations)}: pass None to use the common elicitation everywhere."
            )
        if self.score_from is not None and not 1 <= self.score_from <= length:
            raise ValueError(
                f"score_from must be None or of 1 to {length} tokens, got {self.score_from}: give "
                "the number of the prompt's tokens."
            )

    def elicitation(self, state: int, common: Sequence[int]) -> list[int]:
        """Return the token ids placed after a state: its own, or else the common ones."""
        return list(common if self.state_elicitations is None else self.state_elicitations[state])

    def num_positions(self, common: Sequence[int]) -> int:
        """Return how many positions the rollout needs, with elicitations and answers."""
        if not self.answers:
            return self.trunk_length
        asked = max(
            position + len(self.elicitation(state, common))
            for state, position in enumerate(self.state_positions)
        )
        return max(asked + max(len(answer.token_ids) for answer in self.answers), self.trunk_length)

    @property
    def scored_positions(self) -> range:
        """Positions of the rollout's tokens that are scored themselves."""
        start = len(self.token_ids) if self.score_from is None else self.score_from
        return range(start, len(self.token_ids))

    @property
    def trunk_length(self) -> int:
        """Number of tokens to feed: up to the last state, or to the last token but one if scored.

        The last token is predicted, never fed.
        """
        states = self.state_positions[-1] if self.answers else 0
        return max(states, len(self.token_ids) - 1 if self.scored_positions else 0)
