"""Every scored token's log-probability, from logits of few places at a time."""

import pytest
import torch
from transformers.modeling_outputs import CausalLMOutputWithPast

from barl_trl.plausibility import forward
from barl_trl.plausibility.forward import ForwardRequest, token_logps
from barl_trl.plausibility.tree.rows import build_rows

from .cases import ALL, ANSWERS, EDGE_CASES, ELICITATION, GROUPS, group, ids
from .models import SHARED, make
from .oracle import assert_matches, assert_own_match, oracle, own_oracle, score
from .trees import all_reads


class WatchedHead(torch.nn.Linear):
    """Remembers at how many places it was read at a time."""

    def forward(self, states):
        self.sizes.append(states.shape[1])
        return super().forward(states)


# What is read


@torch.no_grad()
@pytest.mark.parametrize("layout", ["packed", "masked", "plain"])
def test_a_scored_token_is_read_from_the_logits_behind_its_context(model, layout):
    rollouts = [EDGE_CASES["own_elicitations"], *group(ids(60), [9, 3], ANSWERS)]
    rows = build_rows(rollouts, ELICITATION, layout, max_tokens=300)
    found = token_logps(model, ForwardRequest(rollouts, rows, layout, max_tokens=300))
    answers, completions = (torch.zeros_like(logps) for logps in found)
    for (i, state, hypothesis, token), label, before in all_reads(rollouts, ELICITATION):
        logp = model(torch.tensor([before])).logits[0, -1].log_softmax(-1)[label]
        if state < 0:
            completions[i, token] = logp
        else:
            answers[i, state, hypothesis, token] = logp
    torch.testing.assert_close(found.answers, answers, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.completions, completions, atol=1e-4, rtol=0)


def test_own_tokens_and_answers_read_at_one_place_have_their_own_temperatures(model):
    rollouts = GROUPS["prompt shared"]
    options = {"temperature": 2.0, "completion_temperature": 0.7, "elicitation_ids": []}
    result = score(model, rollouts, **options)
    assert_matches(result, oracle(model, rollouts, temperature=2.0, elicitation=[]))
    assert_own_match(result, [own_oracle(model, rollout, 0.7) for rollout in rollouts])


# The head


def test_head_reads_only_what_is_scored(model):
    rows = []
    hook = model.lm_head.register_forward_hook(lambda _, args, out: rows.append(out.shape[:2]))
    score(model, ALL[:1])
    rows.clear()
    score(model, ALL[:1])
    hook.remove()
    # Of 5 and 4 tokens, the first forced and different: 4 + 3 places for each of 5 states.
    assert rows == [(1, 35)]


@pytest.mark.parametrize("is_described", [True, False])
@pytest.mark.parametrize("family", ["qwen2", "gemma2", "cohere", "granite"])
def test_logits_are_held_some_places_at_a_time(family, is_described, monkeypatch):
    monkeypatch.setattr(forward, "HEAD_TILE", 16)
    if not is_described:
        monkeypatch.setattr(forward, "scales_logits", lambda _: False)
    scales = {"cohere": {"logit_scale": 0.0625}, "granite": {"logits_scaling": 3.0}}
    model = make(family, **{**SHARED.get(family, {}), **scales.get(family, {})})
    rollouts = GROUPS["prompt shared"]
    expected = oracle(model, rollouts)
    own = [own_oracle(model, rollout) for rollout in rollouts]
    model.lm_head.__class__, model.lm_head.sizes = WatchedHead, []
    score(model, rollouts)
    model.lm_head.sizes.clear()
    result = score(model, rollouts)
    is_tiled = max(model.lm_head.sizes) <= 16
    assert_matches(result, expected)
    assert_own_match(result, own)
    # behind the head, some models scale or cap all logits: then they must be there
    assert is_tiled == (family == "qwen2")


def test_logits_that_are_scaled_in_place_are_found_out(model, monkeypatch):
    plain = type(model).forward

    def scaled(*args, **kwargs):
        output = plain(model, *args, **kwargs)
        output.logits.mul_(0.5)
        return output

    monkeypatch.setattr(model, "forward", scaled)
    monkeypatch.setattr(forward, "HEAD_TILE", 16)
    expected = oracle(model, ALL)
    for _ in range(2):
        assert_matches(score(model, ALL), expected)


def test_a_head_that_reads_other_places_than_the_rows_is_left_alone(model):
    expected = oracle(model, ALL)

    class Streaming(type(model)):  # as ProphetNet
        def forward(self, *args, position_ids=None, **kwargs):
            hidden = self.model(*args, position_ids=position_ids, **kwargs).last_hidden_state
            logits = self.lm_head(torch.stack([hidden, -hidden], 1))[:, 0]
            return CausalLMOutputWithPast(logits=logits)

    model.__class__ = Streaming
    assert_matches(score(model, ALL), expected)


def test_model_without_output_embeddings(model, monkeypatch):
    expected = oracle(model, ALL)
    monkeypatch.setattr(model, "get_output_embeddings", lambda: None)
    assert_matches(score(model, ALL), expected)
