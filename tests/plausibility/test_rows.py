"""The packed rows against the tree that they stand for, enumerated by brute force."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.plausibility import rows as packing
from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.rows import Feeding, micro_batches, reencoded_rows, shared_prefix_rows
from barl_trl.plausibility.tree_attention import tree_mask

from .trees import all_reads, build, context, groups, history, rollout_fields, tokens

PACKED, MASKED = Feeding("packed"), Feeding("masked")


def check_reads(rows, rollouts, common):
    found = sorted(
        ((*read[2:],), read.label, history(row, read.position))
        for row in rows
        for read in row.scored
    )
    assert found == sorted(
        (key, label, [*seen]) for key, label, seen in all_reads(rollouts, common)
    )


# What is asked


@given(groups())
def test_the_trunk_is_what_stands_before_the_last_token_that_is_read(many):
    for rollout in map(build, many):
        states = [rollout.token_ids[:end] for end in rollout.state_positions]
        own = [seen for key, _, seen in all_reads([rollout], []) if key[1] < 0]
        contexts = [*own, *(states if rollout.answers else [])]
        assert rollout.trunk_length == max(map(len, contexts))


@pytest.mark.parametrize(("ids", "score_from"), [([], 0), ([1, 2], 2), ([1, 2], -1)])
def test_an_answer_without_scored_tokens_is_refused(ids, score_from):
    with pytest.raises(ValueError, match="score_from"):
        Answer(ids, score_from)


@pytest.mark.parametrize(
    "fields",
    [
        *(([], [1], []), ([1], [], []), ([1], [0], []), ([1], [2], []), ([1, 2], [2, 1], [])),
        *(([1, 2], [1, 1], []), ([1, 2], [1, 2], [], [[3]])),
        *(([1, 2], [1], [], None, 0), ([1, 2], [1], [], None, 3)),
    ],
)
def test_a_rollout_whose_states_or_scored_tokens_are_not_its_own_is_refused(fields):
    with pytest.raises(ValueError, match=r"token_ids|state_|score_from"):
        Rollout(*fields)


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


# Micro-batches


@given(st.lists(rollout_fields(), max_size=6), st.integers(1, 60), st.booleans())
def test_padded_rows_are_each_in_a_batch_within_the_budget(many, max_tokens, same_length):
    rows = shared_prefix_rows([build(fields) for fields in many], [1])
    found = []
    for batch in micro_batches(rows, Feeding("masked", same_length), max_tokens):
        assert batch.token_ids.numel() <= max_tokens or len(batch.token_ids) == 1
        assert batch.attention_mask.all() or not same_length
        assert tree_mask(batch.subtree_ends, batch.position_ids).diagonal(dim1=-2, dim2=-1).all()
        size = batch.token_ids.shape[1]
        for i, (ids, kept) in enumerate(zip(batch.token_ids, batch.attention_mask, strict=True)):
            here = batch.places // size == i
            reads = (batch.places % size, batch.labels, *batch.targets.unbind(-1))
            found.append((ids[kept].tolist(), torch.stack(reads, -1)[here].tolist()))
    assert sorted(found) == sorted(
        (row.token_ids, [[*read] for read in row.scored]) for row in rows
    )


@given(groups(), st.integers(1, 60))
def test_joined_rows_are_each_in_a_batch_in_order(many, max_tokens):
    rows = shared_prefix_rows([build(fields) for fields in many], [1])
    expected = iter(rows)
    for batch in micro_batches(rows, PACKED, max_tokens):
        assert batch.token_ids.numel() <= max_tokens or len(batch.rows) == 1
        assert batch.attention_mask.all()
        stops = [start for start, _ in batch.rows[1:]] + [batch.token_ids.numel()]
        for (start, row), stop in zip(batch.rows, stops, strict=True):
            assert row == next(expected)
            assert batch.token_ids[0, start:stop].tolist() == row.token_ids
            assert batch.position_ids[0, start:stop].tolist() == row.position_ids
            assert (batch.subtree_ends[0, start:stop] - start).tolist() == row.subtree_ends
            here = (start <= batch.places) & (batch.places < stop)
            places = batch.places[here] - start
            reads = torch.stack([places, batch.labels[here], *batch.targets[here].T], -1)
            assert reads.tolist() == [[*read] for read in row.scored]
            assert batch.is_completion[here].tolist() == [read.state < 0 for read in row.scored]
    assert next(expected, None) is None
