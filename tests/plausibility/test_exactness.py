"""A model is checked by its values, and re-encoded with one warning if it fails."""

import pytest
import torch
from transformers import Qwen2ForCausalLM

from barl_trl.plausibility.answer_logps import answer_log_likelihoods
from barl_trl.plausibility.checks import exactness, model_traits
from barl_trl.plausibility.checks.exactness import Checks
from barl_trl.plausibility.checks.model_traits import why_not_shared_prefix
from barl_trl.plausibility.queries import Answer, Rollout
from barl_trl.plausibility.tree import tree_attention

from .cases import ALL, ANSWERS, BASE, ELICITATION, group, ids
from .models import DEPENDING_ON_PADDING, REENCODED, SHARED, make
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


def fed(model):
    """A list that grows by the number of tokens of every forward pass."""
    seen = []

    def note(_, args, kwargs):
        seen.append(kwargs["input_ids"].numel())

    model.register_forward_pre_hook(note, with_kwargs=True)
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
    assert "its forward over such rows raised AssertionError" in message


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


# Padding


def widths(model, seen):
    """A list that grows by the rows and places of every forward pass, and if some are padding."""

    def note(_, args, kwargs):
        padded = not kwargs["attention_mask"].all()
        seen.append((*kwargs["input_ids"].shape, padded))

    model.register_forward_pre_hook(note, with_kwargs=True)
    return seen


@pytest.mark.parametrize("family", [*DEPENDING_ON_PADDING, "bloom"])
def test_rows_of_equal_length_are_fed_together_where_padding_matters(family, caplog):
    model = make(family, **{**REENCODED, **DEPENDING_ON_PADDING}[family])
    rollouts = group(ids(9), [4, 12], ANSWERS)
    expected = oracle(model, rollouts)
    score(model, rollouts, "reencode")
    seen = widths(model, [])
    assert_matches(score(model, rollouts, "reencode"), expected)
    depends = family in DEPENDING_ON_PADDING
    assert any(padded for *_, padded in seen) != depends
    assert max(rows for rows, *_ in seen) > 1
    said = [r.getMessage() for r in caplog.records if "depends on padding" in r.getMessage()]
    assert len(said) == depends


# When it is checked


def test_a_model_is_checked_again_when_rollouts_outgrow_a_power_of_two(model):
    seen, checked = forwards(model), []
    for length in (9, 15, 12, 16, 31, 8, 40):
        rollout = Rollout(ids(length), [4, length], [Answer(BASE)])
        assert Checks(model, ELICITATION, 4096).can_share_prefixes([rollout])
        checked.append(bool(seen))
        seen.clear()
    assert checked == [True, False, False, True, False, False, True]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])  # packed, or padded
def test_a_check_feeds_less_than_two_scoring_passes_and_says_how_long_it_took(attention):
    model = make("qwen2", attention)
    seen, tokens = fed(model), []
    answers = [Answer(ids(5, n), 1) for n in range(4)]
    rollouts = group(ids(30), [48] * 16, answers)
    for _ in range(2):
        scored = answer_log_likelihoods(model, rollouts, elicitation_ids=ELICITATION)
        tokens.append(sum(seen))
        assert (scored.check_seconds > 0) == (len(tokens) == 1)
        seen.clear()
    first, later = tokens
    assert later < first < 3 * later


def test_where_nothing_is_asked_no_model_is_checked(model):
    seen = forwards(model)
    for rollouts in ([], [Rollout(ids(9), [4, 9], [])]):
        checks = Checks(model, ELICITATION, 4096)
        assert checks.can_share_prefixes(rollouts)
        assert checks.cached_lengths(rollouts, None) == []
    assert not seen
