"""The packed rows against the tree that they stand for, enumerated by brute force."""

from hypothesis import given
from hypothesis import strategies as st

from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.tree import rows as packing
from barl_trl.plausibility.tree.micro_batches import packed_micro_batches, padded_micro_batches
from barl_trl.plausibility.tree.rows import reencoded_rows, shared_prefix_rows

from .trees import all_reads, build, context, groups, history, rollout_fields, tokens


def check_reads(rows, rollouts, common):
    found = sorted(
        ((*read[2:],), read.label, history(row, read.position))
        for row in rows
        for read in row.scored
    )
    assert found == sorted(
        (key, label, [*seen]) for key, label, seen in all_reads(rollouts, common)
    )


# What is read


@given(rollout_fields(), st.lists(tokens, max_size=3))
def test_every_scored_token_is_read_once_and_behind_its_own_context(fields, common):
    rollouts = [build(fields)]
    check_reads(shared_prefix_rows(rollouts, common), rollouts, common)
    check_reads(reencoded_rows(rollouts, common), rollouts, common)


@given(groups(), st.lists(tokens, max_size=3), st.sampled_from([0, 12, 1000]))
def test_rollouts_of_a_group_are_read_as_if_they_stood_alone(many, common, max_shared_tokens):
    rollouts = [build(fields) for fields in many]
    rows = shared_prefix_rows(rollouts, common, max_shared_tokens=max_shared_tokens)
    check_reads(rows, rollouts, common)
    check_reads(reencoded_rows(rollouts, common), rollouts, common)


# What is fed


def test_a_first_state_is_scored_once_for_a_group():
    group = [Rollout([1, 2, n], [2, 3], [Answer([5, 6])]) for n in range(3)]
    rows = shared_prefix_rows(group, [4])
    assert [row.token_ids for row in rows] == [
        [1, 2, 0, 4, 5, 4, 5],
        [1, 2, 1, 4, 5],
        [1, 2, 2, 4, 5],
    ]


def test_a_prompt_is_shared_where_that_saves_a_fifth_of_the_tokens():
    def group(size, prompt):
        return [
            Rollout([*range(prompt), n], [prompt, prompt + 1], [Answer([5])]) for n in range(size)
        ]

    (row,) = shared_prefix_rows(group(3, 8), [], max_shared_tokens=100)
    assert row.token_ids == [*range(8), 0, 1, 2]
    assert len(shared_prefix_rows(group(3, 8), [], max_shared_tokens=10)) == 2
    assert len(shared_prefix_rows(group(2, 1), [], max_shared_tokens=100)) == 1  # 1 of 4 saved
    assert packing.SHARE_FROM == 0.2
    two = [Rollout([1, n, 3], [1, 3], [Answer([5])]) for n in range(2)]  # 1 of 6
    assert len(shared_prefix_rows(two, [], max_shared_tokens=100)) == 2


@given(rollout_fields(), st.lists(tokens, max_size=3))
def test_shared_tokens_are_fed_once(fields, common):
    rollout = build(fields)
    (row,) = shared_prefix_rows([rollout], common)
    branches = {
        (state, tuple(context(rollout, common, state, answer, token)))
        for state in range(len(rollout.state_positions))
        for answer in rollout.answers
        for token in range(len(answer.token_ids))
    }
    inner = {
        (state, path[:end])
        for state, path in branches
        for end in range(rollout.state_positions[state] + 1, len(path) + 1)
    }
    assert len(row.token_ids) == rollout.state_positions[-1] + len(inner)


def test_equal_answers_are_fed_once():
    one = Rollout([1, 2], [2], [Answer([5, 6, 7])])
    two = Rollout([1, 2], [2], [Answer([5, 6, 7]), Answer([5, 6, 7])])
    (first,), (second,) = shared_prefix_rows([one], [4]), shared_prefix_rows([two], [4])
    assert first.token_ids == second.token_ids == [1, 2, 4, 5, 6]
    assert len(second.scored) == 2 * len(first.scored)


def test_tokens_behind_the_last_state_are_not_fed():
    (row,) = shared_prefix_rows([Rollout([1, 2, 3], [1, 2], [Answer([9])])], [])
    assert row.token_ids == [1, 2]


def test_rollout_without_answers_has_no_row():
    empty = Rollout([1], [1], [])
    assert shared_prefix_rows([empty], [2]) == reencoded_rows([empty], [2]) == []
    assert list(padded_micro_batches([], 8)) == list(packed_micro_batches([], 8)) == []


@given(groups(), st.sampled_from([0, 12, 1000]), st.data())
def test_what_is_cached_keeps_its_place_in_the_row_unless_it_is_read(many, max_shared_tokens, data):
    rollouts = [build(fields) for fields in many]
    known = [data.draw(st.integers(0, len(rollout.token_ids))) for rollout in rollouts]
    options = {"max_shared_tokens": max_shared_tokens}
    whole = shared_prefix_rows(rollouts, [1], **options)
    rows = shared_prefix_rows(rollouts, [1], **options, num_cached=known)
    assert [row[:5] for row in rows] == [row[:5] for row in whole]
    for row in rows:
        assert row.num_cached <= known[row.rollout]
        assert row.token_ids[: row.num_cached] == rollouts[row.rollout].token_ids[: row.num_cached]
        assert all(read.position >= row.num_cached for read in row.scored)
