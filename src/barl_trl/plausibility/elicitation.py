r"""Asking a state for an answer: the token ids of the elicitation and of `{answer}.`.

Both are tokenised apart from the state, whose tokens stay those that the rollout has.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, takewhile
from typing import Any

from .queries import Answer, Rollout

DEFAULT_ELICITATION = "\nBased on the above reasoning, the final answer is \\boxed"
"""The text of the paper's released code; the text in the paper has no "final". The opening brace
after it belongs to the answer's tokens and is not scored.
"""

THOUGHT_START, THOUGHT_END = "<think>", "</think>"
_OPENING_TOKENS = 32
"""Number of tokens before a turn that surely hold the last word before it."""


class Elicitation:
    """Token ids that ask a state for an answer.

    Args:
        tokenizer: Any transformers tokenizer.
        text: What is placed after a state, up to the opening brace of the answer.
    """

    def __init__(self, tokenizer: Any, text: str = DEFAULT_ELICITATION):
        self.tokenizer = tokenizer
        closing = f"\n{THOUGHT_END}\n{text}"
        self._forms = {
            (is_open, is_start): self._encode(form.removeprefix("\n") if is_start else form)
            for is_open, form in ((False, text), (True, closing))
            for is_start in (False, True)
        }
        self.token_ids, self.closing_token_ids = self._forms[False, False], self._forms[True, False]
        # the rollouts of a group are asked for the same answers
        self._remembered_answer = lru_cache(maxsize=1024)(self.answer)

    def rollout(
        self,
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        step_ends: Sequence[int],
        answers: Sequence[str],
        *,
        score_completion: bool = False,
        mask: Sequence[int] | None = None,
        turn_starts: Sequence[int] = (),
    ) -> Rollout:
        """Return a rollout whose states, at the prompt and after each step, are asked for answers.

        Args:
            prompt_ids: Token ids of the prompt.
            completion_ids: Token ids of the chain of thought. What stands after its steps, such
                as an end-of-turn token, belongs to no state.
            step_ends: Ends of its steps, counted from the chain's first token.
            answers: Answers of the hypotheses, the truth first.
            score_completion: Whether to score the completion's own tokens too.
            mask: 1 for each completion token that the model wrote, 0 for the others, which open and
                close no thought. None: the model wrote all of them.
            turn_starts: Places in the completion where the turns of an agent begin. There the
                elicitation has no leading line break, and a thought of an earlier turn is over.
        """
        is_own = [1] * len(prompt_ids) + list(mask or [1] * len(completion_ids))
        token_ids = [*prompt_ids, *completion_ids]
        positions = [len(prompt_ids) + end for end in (0, *step_ends)]
        starts = [len(prompt_ids) + start for start in turn_starts]
        # without answers nothing is asked
        elicitations = self._at_states(token_ids, positions, is_own, starts) if answers else None
        asked = [self._remembered_answer(answer) for answer in answers]
        score_from = len(prompt_ids) if score_completion else None
        return Rollout(token_ids, positions, asked, elicitations, score_from)

    def _at_states(
        self,
        token_ids: Sequence[int],
        state_positions: Sequence[int],
        is_own: Sequence[int],
        turn_starts: Sequence[int],
    ) -> list[list[int]] | None:
        """Return the elicitation of every state, which first closes a thought that is open there.

        None if all have the common one. The text is decoded only to look for the tags, which count
        in own tokens; the state's tokens stay the rollout's.
        """
        are_open = [False] * len(state_positions)
        # most rollouts have no tags: one decoding is enough to know it
        if THOUGHT_START in self.tokenizer.decode(token_ids, skip_special_tokens=False):
            are_open = self._open_thoughts(token_ids, state_positions, is_own, turn_starts)
        elicitations = [
            self._forms[is_open, position in turn_starts]
            for is_open, position in zip(are_open, state_positions, strict=True)
        ]
        return elicitations if any(ids is not self.token_ids for ids in elicitations) else None

    def _open_thoughts(
        self,
        token_ids: Sequence[int],
        state_positions: Sequence[int],
        is_own: Sequence[int],
        turn_starts: Sequence[int],
    ) -> list[bool]:
        """Return whether a thought is open at each state."""
        turn_of_state = [
            max(start for start in (state_positions[0], *turn_starts) if start <= position)
            for position in state_positions
        ]
        # what stands before a turn may speak of the tags: only its last word opens a thought
        turns = [*dict.fromkeys(turn_of_state)]
        before = [token_ids[max(0, start - _OPENING_TOKENS) : start] for start in turns]
        starts = map(max, turn_of_state, [0, *state_positions])
        segments = [
            [*compress(token_ids[a:b], is_own[a:b])]
            for a, b in zip(starts, state_positions, strict=False)
        ]
        decoded = self.tokenizer.batch_decode([*before, *segments], skip_special_tokens=False)
        openings = dict(zip(turns, decoded[: len(turns)], strict=True))
        text, turn, are_open = "", None, []
        for turn_here, words in zip(turn_of_state, decoded[len(turns) :], strict=True):
            if turn_here != turn:
                turn = turn_here
                text = openings[turn].rstrip()[-len(THOUGHT_START) :]
            text += words
            are_open.append(text.rfind(THOUGHT_START) > text.rfind(THOUGHT_END))
        return are_open

    def answer(self, text: str) -> Answer:
        """Return `{text}.`, scored after its opening brace, which the elicitation forces.

        Closing brace and dot are scored: without them "2" would be a prefix of "23". A token that
        joins the brace to the answer is scored as a whole.
        """
        token_ids = self._encode(f"{{{text}}}.")
        # some tokenizers put a token for a word's start before the brace
        heads = (self.tokenizer.decode(token_ids[:n]) for n in range(1, len(token_ids)))
        forced = takewhile(lambda head: head.lstrip() in ("", "{"), heads)
        return Answer(token_ids, score_from=sum(1 for _ in forced))

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)
