"""Faults are planted and found, in bfloat16 too; rounding is no fault."""

from dataclasses import replace

import pytest
import torch
from transformers import Qwen2ForCausalLM

from barl_trl.plausibility import forward
from barl_trl.plausibility.checks import faults
from barl_trl.plausibility.checks.faults import (
    branch,
    shifted,
    why_not_exact,
    why_not_padded,
    why_stale,
)
from barl_trl.plausibility.checks.reference import reference
from barl_trl.plausibility.kv_cache import GenerationCache
from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.tree import tree_attention

from .cases import ELICITATION, ids
from .models import DEPENDING_ON_PADDING, EXPERTS, REENCODED, adapted, few_are_quick, make
from .test_kv_cache import generated

DTYPES = [torch.float32, torch.bfloat16]
ROLLOUTS = [
    Rollout(ids(40), [7, 15, 23, 31, 40], [Answer(ids(5)), Answer(ids(4))]),
    Rollout(ids(29, 1), [12, 20, 28], [Answer(ids(3))]),
    Rollout(ids(9), [9], [Answer(ids(2))]),
    Rollout(ids(30), [5, 13], [Answer(ids(1)), Answer(ids(1, 1))]),
]
FAMILIES = (
    *("apertus", "arcee", "cohere", "cohere2", "ernie4_5", "exaone4", "gemma", "glm4"),
    *("gpt2", "gpt_bigcode", "gpt_neox", "glm", "granite", "granitemoe", "helium", "llama"),
    *("mistral", "mixtral", "nemotron", "olmo2", "olmoe", "persimmon", "phi", "phi3", "qwen2"),
    *("qwen2_moe", "qwen3", "smollm3", "stablelm", "starcoder2"),
)


def found(model, rollout):
    with torch.no_grad():
        known = reference(model, rollout, ELICITATION, 4096)
        return why_not_exact(model, known, ELICITATION, 4096)


def found_in_padding(model, rollout, layout="plain"):
    with torch.no_grad():
        known = reference(model, rollout, ELICITATION, 4096)
        return why_not_padded(model, known, ELICITATION, 4096, layout)


@pytest.mark.parametrize("family", few_are_quick(FAMILIES))
def test_rounding_is_no_fault(family):
    model = make(family, **EXPERTS)
    for dtype in DTYPES:
        model.to(dtype)
        assert [found(model, rollout) for rollout in ROLLOUTS[:2]] == [None] * 2
    assert found_in_padding(model, ROLLOUTS[0]) is None


def test_an_expert_that_gets_other_tokens_of_other_branches_is_no_fault():
    rollout = Rollout(ids(21, 61), [5, 10, 21], [Answer(ids(5, 61)), Answer(ids(4, 61))])
    assert found(make("olmoe", **EXPERTS), rollout) is None  # its products change by 1e-8


@pytest.mark.parametrize("family", ["mamba", "qwen3_next", "bloom"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_is_no_fault_of_padding_where_models_are_reencoded(family, dtype):
    model = make(family, **REENCODED[family]).to(dtype)
    assert [found_in_padding(model, rollout) for rollout in ROLLOUTS[:3]] == [None] * 3


@pytest.mark.parametrize("family", DEPENDING_ON_PADDING)
@pytest.mark.parametrize("dtype", DTYPES)
def test_padding_that_is_seen_is_found(family, dtype):
    model = make(family, **DEPENDING_ON_PADDING[family]).to(dtype)
    reason = {"cpmant": "padded rows are off by", "hy_v4": "it picks the top k places of a row"}
    for rollout in ROLLOUTS[:2]:
        assert found_in_padding(model, rollout).startswith(reason[family])


class WidthScaled(Qwen2ForCausalLM):
    """Its logits depend on how wide its rows are."""

    def forward(self, *args, input_ids=None, position_ids=None, **kwargs):
        output = super().forward(*args, input_ids=input_ids, position_ids=position_ids, **kwargs)
        output.logits = output.logits * (1 + input_ids.shape[1] / 100)
        return output


@pytest.mark.parametrize("layout", ["plain", "masked"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_depend_on_the_width_of_a_row_are_found(layout, dtype):
    model = make("qwen2").to(dtype)
    model.__class__ = WidthScaled
    assert found_in_padding(model, ROLLOUTS[0], layout).startswith("padded rows are off by")


@pytest.mark.parametrize("kind", ["adapter", "autocast"])
def test_rounding_is_no_fault_with_an_adapter_or_under_autocast(kind):
    model = adapted(make("qwen2")) if kind == "adapter" else make("qwen2")
    if kind == "adapter":
        model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        assert [found(model, rollout) for rollout in ROLLOUTS] == [None] * len(ROLLOUTS)


def planted(fault, monkeypatch):
    """Whatever is fed as a tree has a fault that its row does not tell."""

    def token_logps(model, request):
        if request.layout != "plain":
            request = replace(request, rows=[fault(row) for row in request.rows])
        return forward.token_logps(model, request)

    monkeypatch.setattr(faults, "token_logps", token_logps)


def visible(row):
    """The first token behind the first state is seen by its branch, and by all that follows."""
    ends = list(row.subtree_ends)
    ends[ROLLOUTS[0].state_positions[0]] = len(ends)
    return row._replace(subtree_ends=ends)


def hidden(row):
    """The second token is seen by the trunk alone."""
    ends = list(row.subtree_ends)
    ends[1] = row.blocks[0].trunk_stop
    return row._replace(subtree_ends=ends)


def answers_seen(row):
    """An answer is seen by the next one of the same state."""
    stop = branch(row, row.blocks[0].trunk_stop).stop
    ends = [max(end, stop) if place < stop else end for place, end in enumerate(row.subtree_ends)]
    return row._replace(subtree_ends=ends)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (visible, "tokens see what their tree hides from them"),
        (answers_seen, "tokens see what their tree hides from them"),
        (hidden, "packed rows are off by"),
        (lambda row: shifted(row, 1), "positions are wrong"),
        (lambda row: shifted(row, -1), "positions are wrong"),
        (lambda row: shifted(row, 7), "p"),
    ],
)
@pytest.mark.parametrize(
    ("family", "dtype"),
    [("qwen2", torch.float32), ("qwen2", torch.bfloat16), ("mixtral", torch.bfloat16)],
)
def test_a_planted_fault_is_found(family, fault, reason, dtype, monkeypatch):
    model = make(family, **EXPERTS).to(dtype)
    planted(fault, monkeypatch)
    why = found(model, ROLLOUTS[0])
    assert why
    assert why.startswith(reason)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_window_that_only_packed_rows_have_is_found(dtype, monkeypatch):
    model = make("qwen2", "eager").to(dtype)
    monkeypatch.setattr(tree_attention, "layer_types", lambda _: {"sliding_attention"})
    model.config.sliding_window = 12
    monkeypatch.setattr(model.config, "layer_types", ["full_attention"] * 2)
    assert found(model, ROLLOUTS[0])


@pytest.mark.parametrize(
    ("family", "dtype"),
    [("qwen2", torch.float32), ("qwen2", "autocast"), ("mixtral", torch.bfloat16)],
)
def test_a_cache_of_other_weights_or_of_another_rollout_is_found(family, dtype):
    model = make(family, **EXPERTS)
    if dtype == "autocast":  # as accelerate wraps a model
        model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    else:
        model.to(dtype)
    rollouts, recorder = generated(model)
    cache = recorder.cache([rollout.token_ids for rollout in rollouts])

    def stale(rollout, cache):
        with torch.no_grad():
            known = reference(model, rollout, ELICITATION, 4096)
            return why_stale(model, known, ELICITATION, 4096, cache)

    for row, rollout in enumerate(rollouts):
        assert stale(rollout, cache.select([row])) is None
    first, second = cache.rows[:2]
    mixed = GenerationCache([second._replace(token_ids=first.token_ids[: len(second.token_ids)])])
    assert stale(rollouts[0], mixed).startswith("its keys and values are off by")
    layers = [(keys.clone(), values.clone()) for keys, values in cache.rows[0].layers]
    few = GenerationCache([cache.rows[0]._replace(layers=layers)])
    for layer in range(len(layers)):
        few.prefix(layer, 0, 5)[1].neg_()
    assert stale(rollouts[0], few).startswith("answers after its keys and values are off by")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.02)
    for row, rollout in enumerate(rollouts):
        assert stale(rollout, cache.select([row])).startswith("its keys and values are off by")
