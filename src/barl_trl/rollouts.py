"""What is asked of a model: rollouts as token ids, their states, and answers at each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


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
        token_ids: Prompt + completion, no padding.
        state_positions: Number of leading tokens that each state holds, strictly ascending.
        answers: The hypotheses' answers; index 0 is the ground truth. May be empty.
        state_elicitations: The elicitation of each state, where it is not the common one.
        read_from: Number of leading tokens behind which every token's own log-probability is asked
            for, too: the prompt's, for those of the completion. `None` for none.

    Raises:
        ValueError: If a field breaks these rules.
    """

    token_ids: Sequence[int]
    state_positions: Sequence[int]
    answers: Sequence[Answer]
    state_elicitations: Sequence[Sequence[int]] | None = None
    read_from: int | None = None

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

        if self.read_from is not None and not 1 <= self.read_from <= length:
            raise ValueError(
                f"read_from must be None or of 1 to {length} tokens, got {self.read_from}: give "
                "the number of the prompt's tokens"
            )

    def elicitation(self, state: int, common: Sequence[int]) -> list[int]:
        """Return the token ids placed behind a state: its own, or else the common ones."""
        return list(common if self.state_elicitations is None else self.state_elicitations[state])

    @property
    def read_positions(self) -> range:
        """Positions of the tokens whose own log-probability is asked for."""
        start = len(self.token_ids) if self.read_from is None else self.read_from
        return range(start, len(self.token_ids))

    @property
    def trunk_length(self) -> int:
        """Number of tokens to feed: up to the last state, or to the last token but one if read."""
        states = self.state_positions[-1] if self.answers else 0
        return max(states, len(self.token_ids) - 1 if self.read_positions else 0)
