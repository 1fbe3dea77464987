"""Answer log-likelihoods against a plain loop of one unpadded forward per state and answer."""

import math
from functools import cache

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers.modeling_outputs import CausalLMOutputWithPast

from barl_trl.plausibility import forward
from barl_trl.plausibility.queries import Answer, Rollout

from .cases import ALL, BASE, BRANCH, EDGE_CASES, ELICITATION, GROUPS, VOCAB, ids
from .models import SHARED, adapted, few_are_quick, limited, make, trusted
from .oracle import assert_matches, assert_own_match, oracle, own_oracle, refusals, score

IN_GROUPS = [rollout for many in GROUPS.values() for rollout in many]


@cache
def expected_of_groups(family):
    """Log-likelihoods of all answers, and of the rollouts' own tokens, at two temperatures."""
    model = make(family, **SHARED[family])
    own = [own_oracle(model, rollout, 0.7) for rollout in IN_GROUPS]
    return oracle(model, IN_GROUPS, temperature=2.0), own


def state_of(model):
    modules = list(model.modules())
    return (
        [module.training for module in modules],
        [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in modules],
        [(p.requires_grad, p.grad, p.sum().item()) for p in model.parameters()],
        model.config._attn_implementation,
    )


# Values


@pytest.mark.parametrize("family", few_are_quick(SHARED))
def test_families_share_prefixes_exactly(family, caplog):
    model = make(family, **SHARED[family])
    expected = oracle(model, ALL)
    assert max(expected.values()) - min(expected.values()) > 1
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert_matches(shared, expected)
    assert_matches(plain, expected)
    assert shared.num_tokens < plain.num_tokens / 2
    assert not refusals(caplog)


@pytest.mark.parametrize("max_tokens", [1, 100, 16384])
@pytest.mark.parametrize(
    ("family", "method"),
    [
        ("qwen2", "reencode"),
        *((name, "shared_prefix") for name in ("qwen2", "gpt2", "gemma3_text", "gpt_oss")),
    ],
)
def test_groups_and_their_own_tokens(family, method, max_tokens, caplog):
    model, rollouts = make(family, **SHARED[family]), IN_GROUPS
    options = {"temperature": 2.0, "completion_temperature": 0.7, "max_tokens": max_tokens}
    result = score(model, rollouts, method, **options)
    expected, own = expected_of_groups(family)
    assert_matches(result, expected)
    assert_own_match(result, own)
    assert not refusals(caplog)


# Edge cases


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
@pytest.mark.parametrize("case", EDGE_CASES)
def test_edge_cases(model, case, method):
    rollout = EDGE_CASES[case]
    assert_matches(score(model, [rollout], method), oracle(model, [rollout]))


@pytest.mark.parametrize(
    ("reduction", "temperature"), [("sum", 2.0), ("token_mean", 1.0), ("token_mean", 0.2)]
)
@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_other_reductions_and_temperatures(model, method, reduction, temperature):
    options = {"reduction": reduction, "temperature": temperature}
    expected = oracle(model, ALL, **options)
    if temperature < 1:
        assert min(expected.values()) < -16, "smaller than what float32 can add to 1"
    assert_matches(score(model, ALL, method, **options), expected, 3e-4)


def test_bfloat16_is_as_good_as_reencoding(model, caplog):
    exact = oracle(model, ALL)
    model.bfloat16()
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert (shared.answer_logps - plain.answer_logps).abs().max() < 0.1
    assert_matches(shared, exact, 0.3)
    assert not refusals(caplog)


def test_impossible_answers_are_minus_infinity_not_nan(model):
    model.lm_head = torch.nn.Linear(32, VOCAB)
    with torch.no_grad():
        model.lm_head.bias[BASE[2]] = -math.inf
    rollout = Rollout(ids(20), [4, 20], [Answer(BASE, 1), Answer([31, 32]), Answer(BASE, 3)])
    for method in ("shared_prefix", "reencode"):
        for reduction in ("mean", "sum"):
            logps = score(model, [rollout], method, reduction=reduction).answer_logps
            assert (logps[..., 0] == -math.inf).all()
            assert torch.isfinite(logps[..., 1:]).all()
        logps = score(model, [rollout], method, reduction="token_mean").answer_logps
        assert torch.isfinite(logps).all(), "other tokens are possible"


def test_a_shared_prompt_and_a_first_state_are_fed_once(model):
    rollouts = GROUPS["prompt shared"]
    alone = [score(model, [rollout]).num_tokens for rollout in rollouts]
    together = score(model, rollouts, max_tokens=16384)
    first, *others = alone
    assert together.rollout_tokens == [first, *(number - 60 - BRANCH for number in others)]
    assert together.num_tokens == sum(together.rollout_tokens)


# What is read


class WatchedHead(torch.nn.Linear):
    """Remembers at how many places it was read at a time."""

    def forward(self, states):
        self.sizes.append(states.shape[1])
        return super().forward(states)


def test_own_tokens_and_answers_read_at_one_place_have_their_own_temperatures(model):
    rollouts = GROUPS["prompt shared"]
    options = {"temperature": 2.0, "completion_temperature": 0.7, "elicitation_ids": []}
    result = score(model, rollouts, **options)
    assert_matches(result, oracle(model, rollouts, temperature=2.0, elicitation=[]))
    assert_own_match(result, [own_oracle(model, rollout, 0.7) for rollout in rollouts])


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


# Wrappers


def test_lora_adapter_counts(model):
    before = oracle(model, ALL)
    wrapped = adapted(model)
    after = oracle(wrapped, ALL)
    assert max(abs(after[key] - before[key]) for key in after) > 0.1
    assert_matches(score(wrapped, ALL), after)
    with wrapped.disable_adapter():
        assert_matches(score(wrapped, ALL), before)


def test_ddp(model, one_process):
    assert_matches(score(DistributedDataParallel(model), ALL), oracle(model, ALL))


# Memory


@pytest.mark.parametrize(
    ("method", "halvings"), [("shared_prefix", (383, 191)), ("reencode", (512, 256))]
)
def test_where_memory_runs_out_fewer_tokens_go_at_a_time(model, method, halvings, caplog):
    rollouts = [*ALL, *GROUPS["prompt shared"]]
    expected = oracle(model, rollouts)
    result = score(limited(model, 300), rollouts, method, max_tokens=1024)
    assert_matches(result, expected)
    assert result.max_tokens == halvings[-1]  # of the budget, or of all tokens if they are fewer
    assert [record.args for record in caplog.records] == [(n,) for n in halvings]


def test_a_row_that_does_not_fit_at_all_is_said(model):
    with pytest.raises(torch.OutOfMemoryError, match="scoring_max_tokens below 64"):
        score(limited(model, 30), [EDGE_CASES["usual"]], max_tokens=256)


# What the caller keeps


@pytest.mark.parametrize("fails", [False, True])
def test_model_is_left_as_it_was(model, fails, monkeypatch):
    model.train()
    model.model.layers[1].eval()
    model.model.embed_tokens.requires_grad_(False)
    model.config._attn_implementation = "flex_attention"
    before = state_of(trusted(model))  # the check re-encodes, which flex would compile
    if fails:
        monkeypatch.setattr(model.model.norm, "forward", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            score(model, ALL)
    else:
        assert not score(model, ALL).answer_logps.requires_grad
    monkeypatch.undo()
    assert state_of(model) == before


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_a_table_of_positions_may_be_used_up_but_not_exceeded(method, caplog):
    rollout = Rollout(ids(20), [4, 12, 20], [Answer(ids(6), 1)], score_from=4)
    needed = 20 + len(ELICITATION) + 6
    model = make("gpt2", n_embd=32, n_layer=2, n_head=4, max_position_embeddings=needed)
    assert_matches(score(model, [rollout], method), oracle(model, [rollout]))
    assert not refusals(caplog)
    short = make("gpt2", n_embd=32, n_layer=2, n_head=4, max_position_embeddings=needed - 2)
    with pytest.raises(ValueError, match="lower max_completion_length by 2"):
        score(short, [rollout], method)
