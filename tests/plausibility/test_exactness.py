"""A model is checked by its values, and re-encoded with one warning if it fails."""

import pytest
import torch
from transformers import Qwen2ForCausalLM

from barl_trl.plausibility import exactness, model_traits, tree_attention
from barl_trl.plausibility.exactness import cached_lengths, can_share_prefixes
from barl_trl.plausibility.model_traits import why_not_shared_prefix
from barl_trl.plausibility.queries import Answer, Rollout

from .cases import ALL, BASE, ELICITATION, ids
from .models import REENCODED, SHARED, make
from .oracle import assert_matches, oracle, refusals, score


class InOrder(Qwen2ForCausalLM):
    """As Doge and XLM, it dies of packed rows with an error of another kind than torch's."""

    def forward(self, *args, position_ids=None, **kwargs):
        assert position_ids is None or (position_ids.diff() >= 0).all()
        return super().forward(*args, position_ids=position_ids, **kwargs)


def hide_layer_types(monkeypatch):
    """Let every layer be described as one that sees all tokens."""
    for module in (model_traits, tree_attention):
        monkeypatch.setattr(module, "layer_types", lambda _: {"full_attention"})


def forwards(model):
    """A list that grows with every forward pass of the model."""
    seen = []
    model.register_forward_hook(lambda *_: seen.append(1))
    return seen


# What is refused


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
    assert "its forward over packed rows raised AssertionError" in message


@pytest.mark.parametrize("family", ["mistral", "gemma3_text", "mamba", "mpt", "gpt_neo"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_self_check_alone_refuses_what_the_description_hides(family, dtype, caplog, monkeypatch):
    model = make(family, **{**SHARED, **REENCODED}[family]).to(dtype)
    monkeypatch.setattr(exactness, "why_not_shared_prefix", lambda _: None)
    hide_layer_types(monkeypatch)
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert torch.equal(shared.answer_logps, plain.answer_logps)
    assert len(refusals(caplog)) == 1


def test_hidden_window_is_found_when_rollouts_outgrow_it(caplog, monkeypatch):
    model = make("mistral", sliding_window=24)
    hide_layer_types(monkeypatch)
    short = [Rollout(ids(9), [5, 9], [Answer(BASE)])]
    assert_matches(score(model, short), oracle(model, short))
    assert not refusals(caplog)
    assert_matches(score(model, ALL), oracle(model, ALL))
    assert "nats per token" in refusals(caplog)[0]


# When it is checked


def test_a_model_is_checked_again_when_rollouts_outgrow_a_power_of_two(model):
    seen, checked = forwards(model), []
    for length in (9, 15, 12, 16, 31, 8, 40):
        rollout = Rollout(ids(length), [4, length], [Answer(BASE)])
        assert can_share_prefixes(model, [rollout], ELICITATION, 4096)
        checked.append(bool(seen))
        seen.clear()
    assert checked == [True, False, False, True, False, False, True]


def test_where_nothing_is_asked_no_model_is_checked(model):
    seen = forwards(model)
    for rollouts in ([], [Rollout(ids(9), [4, 9], [])]):
        assert can_share_prefixes(model, rollouts, ELICITATION, 4096)
        assert cached_lengths(model, rollouts, ELICITATION, 4096, None) == []
    assert not seen
