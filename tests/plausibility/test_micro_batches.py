"""Rows as tensors: every row once, within the budget, and read where its tokens are."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.plausibility.tree.micro_batches import packed_micro_batches, padded_micro_batches
from barl_trl.plausibility.tree.rows import plain_row, shared_prefix_rows
from barl_trl.plausibility.tree.tree_attention import tree_mask

from .trees import build, rollout_fields

# Below each other


@given(st.lists(rollout_fields(), max_size=6), st.integers(1, 60), st.booleans())
def test_micro_batches_hold_every_row_within_the_budget(many, max_tokens, same_length):
    rows = shared_prefix_rows([build(fields) for fields in many], [1])
    found = []
    for batch in padded_micro_batches(rows, max_tokens, same_length=same_length):
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


def test_padding_sees_itself_only():
    (batch,) = padded_micro_batches([plain_row([5, 6, 7], []), plain_row([8], [])], 6)
    assert batch.token_ids.tolist() == [[8, 0, 0], [5, 6, 7]]  # the shortest first
    assert batch.attention_mask.tolist() == [[True, False, False], [True, True, True]]
    visible = tree_mask(batch.subtree_ends, batch.position_ids)[0, 0]
    assert torch.equal(visible, torch.eye(3).bool())


# Behind each other


@given(st.lists(rollout_fields(), max_size=6), st.integers(1, 60), st.data())
def test_joined_rows_hold_every_row_once_and_in_order(many, max_tokens, data):
    rollouts = [build(fields) for fields in many]
    known = [data.draw(st.integers(0, len(rollout.token_ids))) for rollout in rollouts]
    rows = shared_prefix_rows(rollouts, [1], num_cached=known)
    expected = iter(rows)
    for batch in packed_micro_batches(rows, max_tokens):
        assert batch.token_ids.numel() <= max_tokens or len(batch.rows) == 1
        assert batch.attention_mask.all()
        stops = [start for start, _ in batch.rows[1:]] + [batch.token_ids.numel()]
        for (start, row), stop in zip(batch.rows, stops, strict=True):
            assert row == next(expected)
            fed = slice(row.num_cached, None)  # what is cached keeps its place in the row only
            assert batch.token_ids[0, start:stop].tolist() == row.token_ids[fed]
            assert batch.position_ids[0, start:stop].tolist() == row.position_ids[fed]
            ends = batch.subtree_ends[0, start:stop] - start + row.num_cached
            assert ends.tolist() == row.subtree_ends[fed]
            here = (start <= batch.places) & (batch.places < stop)
            positions = batch.places[here] - start + row.num_cached
            reads = torch.stack([positions, batch.labels[here], *batch.targets[here].T], -1)
            assert reads.tolist() == [[*read] for read in row.scored]
    assert next(expected, None) is None


def test_a_completions_tokens_are_told_from_an_answers():
    rollout = build(([1, 2, 3], [2], [([4], 0)], None, 1))
    (batch,) = packed_micro_batches(shared_prefix_rows([rollout], []), 8)
    labels = batch.labels[batch.is_completion], batch.labels[~batch.is_completion]
    assert [found.tolist() for found in labels] == [[2, 3], [4]]
