"""Attention in pieces and as a mask: both show each token its ancestors, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from barl_trl.plausibility import tree_attention
from barl_trl.plausibility.queries import Rollout
from barl_trl.plausibility.rows import Feeding, micro_batches, shared_prefix_rows
from barl_trl.plausibility.tree_attention import Limits, _alike, calls, tree_mask

from .cases import ALL, ANSWERS, group, ids
from .models import SHARED, make
from .oracle import assert_matches, oracle, refusals, score
from .trees import build, groups, history, rollout_fields, tokens

# As a mask


@given(rollout_fields(), st.lists(tokens, max_size=3))
def test_mask_is_the_ancestor_relation(fields, common):
    rollout = build(fields)
    (row,) = shared_prefix_rows([rollout], common)
    nodes = [tuple(history(row, place)) for place in range(len(row.token_ids))]
    (batch,) = micro_batches([row], Feeding("masked"), 1)
    mask = tree_mask(batch.subtree_ends, batch.position_ids)[0, 0]
    # A trunk node and a branch node may spell the same tokens: tell them apart by the mask's own
    # column, and ask that ancestors are closed under "ancestor of" and spell the prefixes.
    for query, node in enumerate(nodes):
        ancestors = mask[query].nonzero().flatten().tolist()
        assert [nodes[key] for key in ancestors] == [node[: i + 1] for i in range(len(node))]
        for key in ancestors:
            assert set(mask[key].nonzero().flatten().tolist()) <= set(ancestors)


def test_reach_is_measured_in_positions():
    # Trunk of 4, then a branch of 2 that forks behind token 1: its places 4, 5 have depths 2, 3.
    ends = torch.tensor([[6, 6, 4, 4, 6, 6]])
    positions = torch.tensor([[0, 1, 2, 3, 2, 3]])
    window = tree_mask(ends, positions, window=2)[0, 0].int().tolist()
    assert window[4:] == [[0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]]
    chunk = tree_mask(ends, positions, chunk=2)[0, 0].int().tolist()
    assert chunk[1] == [1, 1, 0, 0, 0, 0]
    assert chunk[4:] == [[0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 1]]


@pytest.mark.parametrize("family", ["qwen2", "gemma3_text", "mistral"])
def test_eager_attention(family, caplog):
    model = make(family, **{**SHARED[family], "attn_implementation": "eager"})
    assert_matches(score(model, ALL), oracle(model, ALL))
    assert not refusals(caplog)


# In pieces


LIMITS = st.builds(
    Limits,
    st.sampled_from([1, 3, 128]),
    st.sampled_from([1, 40, 10**9]),
    st.floats(1, 4),
    st.sampled_from([1, 8]),
)


@given(groups(), st.sampled_from([0, 12, 1000]), st.integers(1, 60), LIMITS)
def test_the_pieces_of_attention_show_what_the_mask_shows(
    many, max_shared_tokens, max_tokens, limits
):
    rollouts = [build(fields) for fields in many]
    rows = shared_prefix_rows(rollouts, [1], max_shared_tokens=max_shared_tokens)
    for batch in micro_batches(rows, Feeding("packed"), max_tokens):
        assert batch.token_ids.shape == (1, sum(row.size for _, row in batch.rows))
        cut, order = calls(batch, limits)
        shown = []
        for call in cut:
            (number, queries), keys = call.queries.shape, call.keys.shape[1]
            mask = call.mask(torch.device("cpu"), torch.float32)
            seen = torch.ones(queries, keys).tril() if mask is None else (mask[:, 0] == 0).float()
            places = call.keys[:, None].expand(-1, queries, -1)
            empty = torch.zeros(number, queries, len(order))
            shown.append(empty.scatter_add(2, places, seen.expand(number, -1, -1)).flatten(0, 1))
        columns = ("subtree_ends", "position_ids")
        parts = ([torch.tensor([getattr(row, c)]) for c in columns] for _, row in batch.rows)
        expected = torch.block_diag(*(tree_mask(*part)[0, 0].float() for part in parts))
        assert torch.equal(torch.cat(shown)[order], expected)


@given(
    st.lists(st.tuples(st.integers(1, 2048), st.integers(1, 5000)), min_size=1, max_size=30),
    st.sampled_from([10, 10**5, 10**12]),
    st.floats(1, 2),
)
def test_calls_are_padded_within_bounds_and_no_more_for_more_rollouts(sizes, pairs, padded):
    pieces = [(np.arange(q), np.arange(k)) for q, k in sizes]
    found = _alike(pieces, Limits(1, pairs, padded, 1))
    assert sorted(id(p) for one in found for p in one) == sorted(map(id, pieces))  # each once
    for one in found:
        queries, keys = (np.array([len(piece[n]) for piece in one]) for n in (0, 1))
        total = len(one) * queries.max() * keys.max()
        assert len(one) == 1 or total <= pairs
        assert total <= padded * (queries * keys).sum() or pairs < 10**12
    if pairs == 10**12:
        assert len(_alike(pieces * 9, Limits(1, pairs, padded, 1))) == len(found)


def test_many_rollouts_launch_as_many_kernels_as_few(model, monkeypatch):
    monkeypatch.setattr(tree_attention, "CPU", tree_attention.GPU)
    launched = []
    for number in (2, 12):
        rollouts = group(ids(40), [24] * number, ANSWERS[:1])
        rollouts = [replace(rollout, score_from=None) for rollout in rollouts]
        assert_matches(score(model, rollouts), oracle(model, rollouts))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            score(model, rollouts)
        launched.append({e.key: e.count for e in profiler.key_averages() if "aten::" in e.key})
    assert launched[0] == launched[1]
    attention = launched[0]["aten::scaled_dot_product_attention"]
    assert attention <= 2 * model.config.num_hidden_layers  # the prompt's, the rollouts'


@pytest.mark.parametrize("queries", [7, 128])
def test_a_trunk_longer_than_a_kernel_call_is_causal_and_its_branches_are_masked(
    model, queries, monkeypatch
):
    monkeypatch.setattr(tree_attention, "CPU", tree_attention.CPU._replace(queries=queries))
    rollouts = [Rollout(ids(160), [50, 130, 160], ANSWERS), *group(ids(140), [9, 12, 3], ANSWERS)]
    for max_tokens in (60, 4096):  # a prompt of its own or shared
        result = score(model, rollouts, max_tokens=max_tokens)
        assert_matches(result, oracle(model, rollouts))


def flash(module, query, key, value, attention_mask, **kwargs):
    """As flash attention is called on a GPU, where a mask that is not of padding kills it."""
    assert attention_mask is None or attention_mask.dim() == 2
    length = key.shape[2]
    causal = torch.ones(query.shape[2], length, dtype=torch.bool).tril(length - query.shape[2])
    seen = causal if attention_mask is None else causal & attention_mask.bool()[:, None, None]
    kwargs.pop("is_causal", None)
    return sdpa_attention_forward(module, query, key, value, seen, is_causal=False, **kwargs)


@pytest.mark.parametrize("family", ["qwen2", "olmo2"])
def test_flash_attention_never_gets_the_mask_of_a_tree(family, monkeypatch, caplog):
    model = make(family)
    expected = oracle(model, ALL)
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "flash_attention_2", flash)
    model.config._attn_implementation = "flash_attention_2"
    for method in ("shared_prefix", "reencode"):
        assert_matches(score(model, ALL, method), expected)
    assert not refusals(caplog)
    assert model.config._attn_implementation == "flash_attention_2"
