"""What generation leaves behind stands for feeding a rollout again: same values, fewer tokens."""

import gc
import weakref
from itertools import takewhile

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers.cache_utils import DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from barl_trl.plausibility.kv_cache import GenerationRecorder, cache_of
from barl_trl.plausibility.queries import Rollout
from barl_trl.plausibility.tree import tree_attention

from .cases import ANSWERS, BRANCH, VOCAB, ids
from .models import GPT2, HYBRID, REENCODED, limited, make
from .oracle import assert_matches, assert_own_match, oracle, own_oracle, score

PROMPTS = [ids(n) for n in (9, 4, 13, 13)]
ENDS = [*range(2, 10)]
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def generated(model, length=20, read=False, keeps=True):
    """Rollouts that a model sampled from left-padded prompts, and the recorder of that."""
    longest = max(map(len, PROMPTS))
    padding = [longest - len(prompt) for prompt in PROMPTS]
    torch.manual_seed(0)
    with GenerationRecorder(model, keeps=keeps) as recorder:
        sampled = model.generate(
            input_ids=torch.tensor([[0] * n + p for n, p in zip(padding, PROMPTS, strict=True)]),
            attention_mask=torch.tensor([[0] * n + [1] * (longest - n) for n in padding]),
            max_new_tokens=length,
            do_sample=True,
            top_k=0,
            eos_token_id=ENDS,
        )
    completions = [row[longest:].tolist() for row in sampled]
    completions = [[*takewhile(lambda token: token not in ENDS, c)] for c in completions]
    rollouts = []
    for prompt, completion in zip(PROMPTS, completions, strict=True):
        ends = [*range(8, len(completion), 8), len(completion)]
        states = [len(prompt), *(len(prompt) + end for end in ends if end)]
        score_from = len(prompt) if read else None
        rollouts.append(Rollout([*prompt, *completion], states, ANSWERS, None, score_from))
    assert len({len(completion) for completion in completions}) > 1  # some ended
    return rollouts, recorder


def cache_for(recorder, rollouts):
    return recorder.cache([rollout.token_ids for rollout in rollouts])


@pytest.mark.parametrize("max_tokens", [30, 4096])
@pytest.mark.parametrize(
    "overrides", [{"family": "qwen2"}, {"family": "gpt2", **GPT2, **NO_DROPOUT}]
)
def test_only_the_branches_are_fed(overrides, max_tokens, caplog):
    model = make(**overrides)
    rollouts, recorder = generated(model)
    result = score(
        model, rollouts, generation_cache=cache_for(recorder, rollouts), max_tokens=max_tokens
    )
    assert_matches(result, oracle(model, rollouts))
    # a rollout that was cut off ends with a token that was sampled and never fed
    cut_off = sum(len(r.token_ids) == len(p) + 20 for r, p in zip(rollouts, PROMPTS, strict=True))
    states = sum(len(rollout.state_positions) for rollout in rollouts) - 1  # one s_0 is fed once
    assert result.num_tokens == states * BRANCH + cut_off
    assert not caplog.records


def test_own_tokens_are_read_nevertheless():
    model = make("qwen2")
    rollouts, recorder = generated(model, read=True)
    result = score(model, rollouts, generation_cache=cache_for(recorder, rollouts))
    assert_matches(result, oracle(model, rollouts))
    assert_own_match(result, [own_oracle(model, rollout) for rollout in rollouts])


def test_a_rollout_that_was_not_generated_is_fed_from_where_it_differs(caplog):
    model = make("qwen2")
    rollouts, recorder = generated(model)
    changed = list(rollouts[0].token_ids)
    changed[12] = (changed[12] + 1) % VOCAB
    others = [Rollout(changed, rollouts[0].state_positions, ANSWERS), *rollouts[1:]]
    assert cache_for(recorder, others).lengths(others)[0] == 12
    kept = score(model, rollouts, generation_cache=cache_for(recorder, rollouts))
    result = score(model, others, generation_cache=cache_for(recorder, others))
    assert_matches(result, oracle(model, others))
    assert (
        result.num_tokens
        == kept.num_tokens + cache_for(recorder, rollouts).lengths(rollouts)[0] - 12
    )
    assert not caplog.records


def test_a_cache_of_other_weights_is_found_out(caplog):
    model = make("qwen2")
    rollouts, recorder = generated(model)
    with torch.no_grad():
        model.lm_head.weight *= 0.5  # which keys and values do not depend on
        model.model.layers[0].self_attn.v_proj.weight *= 1.2  # which they do
    for _ in range(2):
        result = score(model, rollouts, generation_cache=cache_for(recorder, rollouts))
        assert_matches(result, oracle(model, rollouts))
        assert result.num_tokens == score(model, rollouts).num_tokens
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("rollouts are fed once more, generation's cache is no help: its keys")


def test_weights_that_begin_to_change_later_are_found_out(caplog):
    """The cache is checked again in calls 1, 2, 4, 8, ..., whatever the lengths."""
    model = make("qwen2")
    for call in range(1, 9):
        rollouts, recorder = generated(model)
        if call > 4:
            with torch.no_grad():
                model.model.layers[0].self_attn.v_proj.weight *= 1.2
        result = score(model, rollouts, generation_cache=cache_for(recorder, rollouts))
        assert (result.check_seconds > 0) == (call in (1, 2, 4, 8))
        assert bool(caplog.records) == (call == 8)
    assert_matches(result, oracle(model, rollouts))


def test_where_memory_runs_out_fewer_tokens_go_at_a_time():
    model = make("qwen2")
    rollouts, recorder = generated(model)
    expected = oracle(model, rollouts)
    for _ in range(2):  # calls that check the model, for which 60 tokens are not enough
        score(model, rollouts, generation_cache=cache_for(recorder, rollouts))
    result = score(
        limited(model, 60), rollouts, generation_cache=cache_for(recorder, rollouts), max_tokens=512
    )
    assert_matches(result, expected)
    assert result.max_tokens == 50  # half of what is fed


def lora(dropout):
    config = LoraConfig(target_modules=["q_proj"], lora_dropout=dropout, task_type="CAUSAL_LM")
    return get_peft_model(make("qwen2"), config)


@pytest.mark.parametrize(
    ("model", "is_kept", "advice"),
    [
        (lambda: lora(0.0), True, None),
        (lambda: lora(0.1), False, "the model has dropout"),
        (lambda: make("gpt2", **GPT2), False, "the model has dropout"),  # its dropouts are 0.1
        (lambda: make("qwen2", attention_dropout=0.1), False, "the model has dropout"),
        # keys outside the window are gone
        (lambda: make("gemma3_text", **HYBRID), False, None),
        (lambda: make("bloom", **REENCODED["bloom"]), False, None),  # it takes no positions
        (lambda: make("mamba", **REENCODED["mamba"]), False, None),  # it has no keys
        # some layers have none
        (lambda: make("qwen3_next", **REENCODED["qwen3_next"]), False, None),
    ],
)
def test_what_scoring_would_not_compute_again_is_not_kept(model, is_kept, advice):
    rollouts, recorder = generated(model())
    cache = cache_for(recorder, rollouts)
    assert (cache is not None) == is_kept
    assert (recorder.advice(cache) or "None").startswith(str(advice))


def test_nothing_is_kept_on_request():
    rollouts, recorder = generated(make("qwen2"), keeps=False)
    assert cache_for(recorder, rollouts) is None
    assert recorder.advice(None) is None


def test_a_generation_without_a_cache_leaves_none():
    model = make("qwen2")
    with GenerationRecorder(model) as recorder:
        model(input_ids=torch.tensor([PROMPTS[0]]))
    assert recorder.cache(PROMPTS[:1]) is None
    assert recorder.advice(None).startswith("generation kept no keys and values that scoring can ")


@pytest.mark.parametrize("name", ["cache", "past_key_values"])  # since transformers 5.24, before
def test_a_cache_is_known_by_its_type(name):
    found = DynamicCache()
    assert cache_of({"input_ids": torch.ones(1, 1), name: found, "use_cache": True}) is found
    assert cache_of({"input_ids": torch.ones(1, 1), name: None}) is None


@pytest.mark.parametrize("options", [{"num_beams": 2}, {"num_return_sequences": 2}])
def test_rows_that_are_no_rollouts_are_not_kept(options):
    model = make("qwen2")
    with GenerationRecorder(model) as recorder:
        prompts = torch.tensor([PROMPTS[0]] * 4)
        model.generate(input_ids=prompts, do_sample=True, max_new_tokens=5, **options)
    assert recorder.cache(PROMPTS[:1] * 4) is None


def test_nothing_of_the_cache_stays_behind():
    model = make("qwen2")
    rollouts, recorder = generated(model)
    cache = cache_for(recorder, rollouts)
    keys = weakref.ref(cache.rows[0].layers[0][0])
    score(model, rollouts, generation_cache=cache)
    assert not model._forward_pre_hooks
    assert tree_attention.NAME not in ALL_ATTENTION_FUNCTIONS
    del cache, recorder
    gc.collect()
    assert keys() is None
