"""The branch of a state: the elicitation, then every shared start of answers once."""

from hypothesis import given
from hypothesis import strategies as st

from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.tree.answer_trie import Branch, answer_tokens, branch_of

from .trees import tokens


@st.composite
def scored_answers(draw):
    """Answers as tokens and the number of those that are not scored."""
    answers = draw(st.lists(st.lists(tokens, min_size=1, max_size=5), min_size=1, max_size=6))
    return tuple((tuple(answer), draw(st.integers(0, len(answer) - 1))) for answer in answers)


def path(branch, place):
    """The tokens from the fork to a place: those whose subtree the place stands in."""
    above = [k for k in range(place + 1) if place < branch.subtree_ends[k]]
    return tuple(branch.token_ids[k] for k in above)


# The tokens


def test_answers_with_the_same_start_branch_where_they_differ():
    branch = branch_of((4,), (((7, 8, 9), 1), ((7, 5, 6, 9), 0)))
    assert branch == Branch(
        # 4, then 7, then 5 6 or 8; the last token of an answer is predicted, never fed
        token_ids=[4, 7, 5, 6, 8],
        depths=[1, 2, 3, 4, 3],
        subtree_ends=[5, 5, 4, 4, 5],
        # (place, label, hypothesis, answer token)
        scored=[(0, 7, 1, 0), (1, 5, 1, 1), (2, 6, 1, 2), (3, 9, 1, 3), (1, 8, 0, 1), (4, 9, 0, 2)],
    )


@given(st.lists(tokens, max_size=3).map(tuple), scored_answers())
def test_every_start_of_an_answer_is_fed_once(elicitation, answers):
    fed = [(*elicitation, *token_ids[:-1]) for token_ids, _ in answers]
    starts = {row[:end] for row in fed for end in range(1, len(row) + 1)}
    branch = branch_of(elicitation, answers)
    paths = [path(branch, place) for place in range(len(branch.token_ids))]
    assert sorted(paths) == sorted(starts)
    assert branch.depths == [len(tokens_to) for tokens_to in paths]


# What is read


@given(st.lists(tokens, max_size=3).map(tuple), scored_answers())
def test_every_scored_token_is_read_behind_the_elicitation_and_its_answers_start(
    elicitation, answers
):
    branch = branch_of(elicitation, answers)
    found = [
        (hypothesis, token, label, path(branch, place) if place >= 0 else ())
        for place, label, hypothesis, token in branch.scored
    ]
    assert sorted(found) == [
        (hypothesis, token, token_ids[token], (*elicitation, *token_ids[:token]))
        for hypothesis, (token_ids, score_from) in enumerate(answers)
        for token in range(score_from, len(token_ids))
    ]


def test_without_an_elicitation_first_tokens_are_read_at_the_fork():
    branch = branch_of((), (((7,), 0), ((8,), 0)))
    assert branch == Branch([], [], [], [(-1, 7, 0, 0), (-1, 8, 1, 0)])


# Remembering


def test_the_branch_of_a_groups_states_is_built_once():
    def rollout(completion):
        return Rollout([1, *completion], [1, 2], [Answer([7, 8], 1), Answer([7, 9])])

    first, second = answer_tokens(rollout([5])), answer_tokens(rollout([6, 6]))
    assert branch_of((4,), first) is branch_of((4,), second)
    assert branch_of((3,), first) is not branch_of((4,), first)
