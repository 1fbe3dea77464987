"""A model is compared with re-encoding once, and re-encoded with one warning if it fails."""

import pytest
import torch
from transformers import Qwen2ForCausalLM

from barl_trl.plausibility import comparison, forward, model_traits, tree_attention
from barl_trl.plausibility.comparison import choose_feeding
from barl_trl.plausibility.model_traits import shared_layout, why_not_shared_prefix
from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.rows import Feeding, shared_prefix_rows

from .cases import ALL, ANSWERS, EDGE_CASES, ELICITATION, group, ids
from .models import EXPERTS, REENCODED, SHARED, adapted, few_are_quick, make
from .oracle import assert_matches, oracle, refusals, score

DTYPES = [torch.float32, torch.bfloat16]
FAMILIES = (
    *("apertus", "arcee", "cohere", "cohere2", "ernie4_5", "exaone4", "gemma", "glm4"),
    *("gpt2", "gpt_bigcode", "gpt_neox", "glm", "granite", "granitemoe", "helium", "llama"),
    *("mistral", "mixtral", "nemotron", "olmo2", "olmoe", "persimmon", "phi", "phi3", "qwen2"),
    *("qwen2_moe", "qwen3", "smollm3", "stablelm", "starcoder2"),
)
ROLLOUT = Rollout(ids(40), [7, 15, 23, 31, 40], [Answer(ids(5)), Answer(ids(4))])


class InOrder(Qwen2ForCausalLM):
    """As Doge and XLM, it dies of packed rows with an error of another kind than torch's."""

    def forward(self, *args, position_ids=None, **kwargs):
        assert position_ids is None or (position_ids.diff() >= 0).all()
        return super().forward(*args, position_ids=position_ids, **kwargs)


class WidthScaled(Qwen2ForCausalLM):
    """Its logits depend on how wide its rows are."""

    def forward(self, *args, input_ids=None, **kwargs):
        output = super().forward(*args, input_ids=input_ids, **kwargs)
        output.logits = output.logits * (1 + input_ids.shape[1] / 100)
        return output


@torch.no_grad()
def chosen(model, rollouts=(ROLLOUT,), method="shared_prefix"):
    comparison._chosen.clear()
    return choose_feeding(model, rollouts, ELICITATION, method, 4096)


def hide_description(monkeypatch):
    """Let every model be described as one that shares prefixes, and sees all tokens."""
    monkeypatch.setattr(comparison, "why_not_shared_prefix", lambda _: None)
    for module in (model_traits, tree_attention):
        monkeypatch.setattr(module, "layer_types", lambda _: {"full_attention"})


def fed(model):
    """A list that grows by rows, places and whether some are padding with every forward pass."""
    seen = []

    def note(_, args, kwargs):
        mask = kwargs.get("attention_mask")
        is_padded = mask is not None and mask.dim() == 2 and not mask.all()
        seen.append((*kwargs["input_ids"].shape, is_padded))

    model.register_forward_pre_hook(note, with_kwargs=True)
    return seen


# Rounding is no fault


@pytest.mark.parametrize("family", [*few_are_quick(FAMILIES), "mamba", "qwen3_next", "bloom"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_families_are_fed_as_they_are_described(family, dtype):
    model = make(family, **REENCODED.get(family, EXPERTS)).to(dtype)
    layout = "plain" if family in REENCODED else shared_layout(model)
    for rollout in (ROLLOUT, EDGE_CASES["usual"]):
        assert chosen(model, [rollout]) == Feeding(layout)
    assert chosen(model, method="reencode") == Feeding("plain")


@pytest.mark.parametrize("kind", ["adapter", "autocast"])
def test_rounding_is_no_fault_with_an_adapter_or_under_autocast(kind):
    model = adapted(make("qwen2")) if kind == "adapter" else make("qwen2")
    if kind == "adapter":
        model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        assert all(chosen(model, [rollout]) == Feeding("packed") for rollout in ALL[:4])


# Faults are


@pytest.mark.parametrize("family", REENCODED)
def test_families_that_cannot_share_are_reencoded_with_one_warning(family, caplog):
    model = make(family, **REENCODED[family])
    assert why_not_shared_prefix(model)
    expected = oracle(model, ALL)
    for _ in range(2):
        assert_matches(score(model, ALL), expected)
    assert len(refusals(caplog)) == 1


def test_a_model_that_dies_of_packed_rows_is_reencoded_with_one_warning(model, caplog):
    model.__class__ = InOrder
    expected = oracle(model, ALL)
    for _ in range(2):
        assert_matches(score(model, ALL), expected)
    (message,) = refusals(caplog)
    assert "AssertionError" in message


@pytest.mark.parametrize("family", ["mistral", "gemma3_text", "mamba", "gpt_neo"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_comparison_alone_refuses_what_the_description_hides(family, dtype, caplog, monkeypatch):
    model = make(family, **{**SHARED, **REENCODED}[family]).to(dtype)
    hide_description(monkeypatch)
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert torch.equal(shared.answer_logps, plain.answer_logps)
    assert len(refusals(caplog)) == 1


def seen_by_branches(row):
    """The last token of the trunk is seen by the branches of all states."""
    ends = list(row.subtree_ends)
    ends[row.blocks[0].trunk_stop - 1] = len(ends)
    return row._replace(subtree_ends=ends)


def hidden(row):
    """The second token is seen by the trunk alone."""
    ends = list(row.subtree_ends)
    ends[1] = row.blocks[0].trunk_stop
    return row._replace(subtree_ends=ends)


def shifted(row, by):
    """The positions of branches are higher by some tokens."""
    stop = row.blocks[0].trunk_stop
    depths = [max(depth + by, 0) for depth in row.position_ids[stop:]]
    return row._replace(position_ids=[*row.position_ids[:stop], *depths])


@pytest.mark.parametrize(
    "fault", [seen_by_branches, hidden, lambda row: shifted(row, 1), lambda row: shifted(row, -1)]
)
@pytest.mark.parametrize("family", ["qwen2", "mixtral"])
def test_a_planted_fault_is_found(family, fault, monkeypatch):
    model = make(family, **EXPERTS)

    def token_logps(model, rollouts, rows, feeding, max_tokens):
        rows = rows if feeding.layout == "plain" else [fault(row) for row in rows]
        return forward.token_logps(model, rollouts, rows, feeding, max_tokens)

    monkeypatch.setattr(comparison, "token_logps", token_logps)
    assert chosen(model) == Feeding("plain")


@torch.no_grad()
@pytest.mark.parametrize("family", few_are_quick(FAMILIES))
def test_tokens_see_nothing_of_other_branches_and_of_what_comes_later(family):
    """In rows of equal shape, where equal kernels give equal bits."""
    model = make(family, **EXPERTS)
    feeding = Feeding(shared_layout(model))
    (row,) = shared_prefix_rows([ROLLOUT], ELICITATION)
    second = ROLLOUT.state_positions[1]
    start = row.subtree_ends[second]  # of the branch of the second state, behind deeper ones
    stop = row.subtree_ends[second - 1]
    assert second < start < stop < len(row.token_ids)
    changed = list(row.token_ids)
    for place in [*range(second, start), *range(stop, len(changed))]:
        changed[place] = 96 - changed[place]
    logps = [
        forward.token_logps(model, [ROLLOUT], [each], feeding, 1)[0][0]
        for each in (row, row._replace(token_ids=changed))
    ]
    # an expert that gets other tokens of other branches multiplies matrices of another shape
    torch.testing.assert_close(logps[0][1], logps[1][1], rtol=0, atol=1e-5)
    assert not torch.allclose(logps[0][0], logps[1][0], atol=1e-2)


# Padding


@pytest.mark.parametrize("picks", [False, True])
def test_rows_of_equal_length_are_fed_together_where_padding_matters(picks, caplog):
    model = make("bloom", **REENCODED["bloom"])
    if picks:  # the top k places of a row, as the indexers of sparse attention do
        model.indexer = type("HYV4Indexer", (torch.nn.Module,), {})()
    rollouts = group(ids(9), [4, 12], ANSWERS)
    expected = oracle(model, rollouts)
    score(model, rollouts, "reencode")
    seen = fed(model)
    assert_matches(score(model, rollouts, "reencode"), expected)
    assert any(is_padded for *_, is_padded in seen) != picks
    assert max(rows for rows, *_ in seen) > 1
    assert caplog.text.count("depends on padding") == picks


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_values_that_depend_on_the_width_of_a_row_are_found(dtype, method, caplog):
    model = make("qwen2", "eager").to(dtype)
    model.__class__ = WidthScaled
    assert chosen(model, method=method) == Feeding("plain", same_length=True)
    assert "depends on padding" in caplog.text


# When it is compared


@pytest.mark.parametrize("attention", ["sdpa", "eager"])  # packed, or padded
def test_a_comparison_feeds_less_than_a_scoring_pass_once(attention):
    model = make("qwen2", attention)
    answers = [Answer(ids(5, n), 1) for n in range(4)]
    seen, counts = fed(model), []
    for _ in range(2):
        score(model, group(ids(30), [48] * 16, answers), max_tokens=4096)
        counts.append((sum(rows * places for rows, places, _ in seen), len(seen)))
        seen.clear()
    (first, _), later = counts
    assert later[1] == 1
    assert later[0] < first < 2 * later[0]


def test_a_model_is_compared_by_whatever_is_fed(model):
    seen = fed(model)
    for rollouts in ([], [Rollout(ids(9), [4, 9], [])]):
        assert chosen(model, rollouts) == Feeding("packed")
    assert not seen
    for rollout in (EDGE_CASES["one_token_rollout"], Rollout(ids(2), [1], [], score_from=1)):
        assert chosen(model, [rollout]) == Feeding("packed")
        assert seen
        seen.clear()
    full = make("gpt2", n_embd=32, n_layer=2, n_head=4, max_position_embeddings=20 + 4 + 4)
    assert chosen(full, [Rollout(ids(20), [4, 20], [Answer(ids(4))])]) == Feeding("packed")
