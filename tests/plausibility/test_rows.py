"""The packed rows against the tree that they stand for, enumerated by brute force."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from barl_trl.plausibility import rows as packing
from barl_trl.plausibility.micro_batches import packed_micro_batches, padded_micro_batches
from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.rows import Row, reencoded_rows, shared_prefix_rows
from barl_trl.plausibility.tree_attention import pieces, tree_mask

tokens = st.integers(0, 2)  # few distinct tokens: shared prefixes and equal answers are frequent


@st.composite
def rollout_fields(draw):
    """Plain values: beartype, which checks dataclasses here, draws random numbers of its own."""
    token_ids = draw(st.lists(tokens, min_size=1, max_size=9))
    positions = sorted(draw(st.sets(st.integers(1, len(token_ids)), min_size=1)))
    answers = draw(st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4))
    scored = [(answer, draw(st.integers(0, len(answer) - 1))) for answer in answers]
    elicitation = st.lists(tokens, max_size=3)
    own = st.lists(elicitation, min_size=len(positions), max_size=len(positions))
    return token_ids, positions, scored, draw(st.none() | own)


def build(fields) -> Rollout:
    token_ids, positions, scored, *options = fields
    return Rollout(token_ids, positions, [Answer(*answer) for answer in scored], *options)


def history(row: Row, place: int) -> list[int]:
    """The tokens that a place of the row sees, in the order of their positions."""
    seen = [k for k in range(place + 1) if place < row.subtree_ends[k]]
    assert [row.position_ids[k] for k in seen] == list(range(len(seen)))
    return [row.token_ids[k] for k in seen]


def context(rollout: Rollout, common: list[int], state: int, answer: Answer, token: int):
    elicitation = (
        common if rollout.state_elicitations is None else rollout.state_elicitations[state]
    )
    prefix = rollout.token_ids[: rollout.state_positions[state]]
    return [*prefix, *elicitation, *answer.token_ids[:token]]


@st.composite
def groups(draw):
    """Rollouts that have their first state in common, some with the same answers, and others."""
    token_ids, positions, scored, _ = draw(rollout_fields())
    prompt = token_ids[: positions[0]]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        completion = draw(st.lists(tokens, max_size=5))
        ends = draw(st.sets(st.integers(0, len(completion)))) | {0}
        forks = [len(prompt) + end for end in sorted(ends)]
        others = draw(st.booleans()) and [([1, 2], 0)]
        score_from = draw(st.none() | st.integers(1, len(prompt) + len(completion)))
        found.append(([*prompt, *completion], forks, others or scored, None, score_from))
    return found


def all_reads(rollouts, common):
    """What is to be read, and the tokens that stand before it, written out one by one."""
    for i, rollout in enumerate(rollouts):
        for n, position in enumerate(rollout.scored_positions):
            yield (i, -1, -1, n), rollout.token_ids[position], rollout.token_ids[:position]
        for state in range(len(rollout.state_positions)):
            for hypothesis, answer in enumerate(rollout.answers):
                for token in range(answer.score_from, len(answer.token_ids)):
                    before = context(rollout, common, state, answer, token)
                    yield (i, state, hypothesis, token), answer.token_ids[token], before


def check_reads(rows, rollouts, common):
    found = sorted(
        ((*read[2:],), read.label, history(row, read.position))
        for row in rows
        for read in row.scored
    )
    assert found == sorted(
        (key, label, [*seen]) for key, label, seen in all_reads(rollouts, common)
    )


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


@given(groups(), st.sampled_from([0, 12, 1000]), st.integers(1, 60), st.data())
def test_the_pieces_of_attention_show_what_the_mask_shows(
    many, max_shared_tokens, max_tokens, data
):
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
    for batch in packed_micro_batches(rows, max_tokens):
        assert batch.token_ids.shape == (1, sum(row.size for _, row in batch.rows))
        place = 0
        cut = iter(pieces(batch))
        for start, row in batch.rows:
            expected = tree_mask(
                torch.tensor([row.subtree_ends]), torch.tensor([row.position_ids])
            )[0, 0]
            shown = torch.zeros_like(expected)
            while place < start + row.size:
                piece = next(cut)
                queries = range(piece.queries.start, piece.queries.stop)
                assert queries[0] == place  # in order, none left out
                place = queries[-1] + 1
                length, rollout = piece.cached
                assert length <= row.num_cached and rollout in (row.rollout, 0)
                fed = [k for run in piece.keys for k in range(run.start, run.stop)]
                keys = [*range(length), *(k - start + row.num_cached for k in fed)]
                if piece.spans is None:  # causal
                    assert fed == [*queries] and not length
                    mask = torch.ones(len(keys), len(keys)).tril().bool()
                else:
                    (first, stop), n = piece.spans, torch.arange(len(queries))[:, None]
                    mask = (first <= n) & (n < stop)
                for n, query in enumerate(queries):
                    shown[query - start + row.num_cached, keys] = mask[n]
            assert torch.equal(shown[row.num_cached :], expected[row.num_cached :])
        assert next(cut, None) is None


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
def test_mask_is_the_ancestor_relation(fields, common):
    rollout = build(fields)
    (row,) = shared_prefix_rows([rollout], common)
    nodes = [tuple(history(row, place)) for place in range(len(row.token_ids))]
    (batch,) = padded_micro_batches([row], 1)
    mask = tree_mask(batch.subtree_ends, batch.position_ids)[0, 0]
    # A trunk node and a branch node may spell the same tokens: tell them apart by the mask's own
    # column, and ask that ancestors are closed under "ancestor of" and spell the prefixes.
    for query, node in enumerate(nodes):
        ancestors = mask[query].nonzero().flatten().tolist()
        assert [nodes[key] for key in ancestors] == [node[: i + 1] for i in range(len(node))]
        for key in ancestors:
            assert set(mask[key].nonzero().flatten().tolist()) <= set(ancestors)


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


def test_reach_is_measured_in_positions():
    # Trunk of 4, then a branch of 2 that forks behind token 1: its places 4, 5 have depths 2, 3.
    ends = torch.tensor([[6, 6, 4, 4, 6, 6]])
    positions = torch.tensor([[0, 1, 2, 3, 2, 3]])
    window = tree_mask(ends, positions, window=2)[0, 0].int().tolist()
    assert window[4:] == [[0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]]
    chunk = tree_mask(ends, positions, chunk=2)[0, 0].int().tolist()
    assert chunk[1] == [1, 1, 0, 0, 0, 0]
    assert chunk[4:] == [[0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]]


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
    ],
)
def test_refusals_say_what_to_do(build, message):
    with pytest.raises(ValueError, match=message):
        build()
