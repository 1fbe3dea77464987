"""What may be asked of a model, and how much of a rollout must be fed for it."""

import pytest
from hypothesis import given

from barl_trl.plausibility.queries import Answer, Rollout

from .trees import all_reads, build, groups


@given(groups())
def test_the_trunk_is_what_stands_before_the_last_token_that_is_read(many):
    for rollout in map(build, many):
        states = [rollout.token_ids[:end] for end in rollout.state_positions]
        own = [seen for key, _, seen in all_reads([rollout], []) if key[1] < 0]
        contexts = [*own, *(states if rollout.answers else [])]
        assert rollout.trunk_length == max(map(len, contexts))


@pytest.mark.parametrize(
    ("answers", "score_from", "trunk"),
    [
        ([], None, 0),  # nothing is asked, nothing is fed
        ([Answer([9])], None, 3),  # up to the last state
        ([], 2, 4),  # the last token is predicted, never fed
        ([Answer([9])], 2, 4),
        ([Answer([9])], 5, 3),  # an empty completion has no token to score
    ],
)
def test_only_what_is_asked_for_is_fed(answers, score_from, trunk):
    rollout = Rollout([1, 2, 3, 4, 5], [2, 3], answers, score_from=score_from)
    assert rollout.trunk_length == trunk


def test_a_completions_tokens_are_scored_from_the_prompts_end():
    rollout = Rollout([1, 2, 3, 4], [2, 4], [], score_from=2)
    assert [rollout.token_ids[place] for place in rollout.scored_positions] == [3, 4]
    assert not Rollout([1, 2, 3, 4], [2, 4], []).scored_positions


def test_a_state_is_asked_with_its_own_elicitation_or_the_common_one():
    own = Rollout([1, 2], [1, 2], [Answer([9])], [[5, 6], []])
    assert [own.elicitation(state, [7]) for state in (0, 1)] == [[5, 6], []]
    common = Rollout([1, 2], [1, 2], [Answer([9])])
    assert [common.elicitation(state, [7]) for state in (0, 1)] == [[7], [7]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Answer([]), "score_from must be at least 0 and below 0"),
        (lambda: Answer([1, 2], 2), "score_from must be at least 0 and below 2.*got 2"),
        (lambda: Answer([1, 2], -1), "got -1: leave at least one token"),
        (lambda: Rollout([], [1], []), "token_ids must not be empty"),
        (lambda: Rollout([1], [], []), "state_positions must name one state or more.*got \\[\\]"),
        (lambda: Rollout([1], [0], []), "each of 1 to 1 tokens, got \\[0\\]"),
        (lambda: Rollout([1], [2], []), "each of 1 to 1 tokens, got \\[2\\]"),
        (lambda: Rollout([1, 2], [2, 1], []), "strictly ascending, got \\[2, 1\\]"),
        (lambda: Rollout([1, 2], [1, 1], []), "strictly ascending, got \\[1, 1\\]"),
        (lambda: Rollout([1, 2], [1, 2], [], [[3]]), "one for each of 2 states, got 1"),
        (lambda: Rollout([1, 2], [1], [], None, 0), "score_from must be None or of 1 to 2.*got 0"),
        (lambda: Rollout([1, 2], [1], [], None, 3), "got 3: give the number of the prompt's"),
    ],
)
def test_refusals_say_what_to_do(build, message):
    with pytest.raises(ValueError, match=message):
        build()
