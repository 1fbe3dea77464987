"""Answer log-likelihoods against a plain loop of one unpadded forward per state and answer."""

import inspect
import logging
import math

import psutil
import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2ForCausalLM

from barl_trl.plausibility import exactness, forward, model_traits, tree_attention
from barl_trl.plausibility.answer_logps import answer_log_likelihoods
from barl_trl.plausibility.model_traits import why_not_shared_prefix
from barl_trl.plausibility.queries import Answer, Rollout

VOCAB = 97
ELICITATION = [11, 12, 13, 14]
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 256}
HYBRID = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 12}
CHUNKED = {
    "layer_types": ["chunked_attention", "full_attention"] * 2,
    "attention_chunk_size": 12,
    "attn_temperature_tuning": False,
    "num_local_experts": 2,
    "intermediate_size_mlp": 48,
}
EXPERTS = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "shared_expert_intermediate_size": 16,
}
SHARED = {
    "qwen2": {},
    "qwen3": {},
    "llama": {},
    "gpt2": GPT2,
    "gpt_neox": {},
    "mistral": {"sliding_window": 12},
    "mixtral": {**EXPERTS, "sliding_window": 12, "output_router_logits": True},
    "gemma2": {**HYBRID, "attn_implementation": "eager"},
    "gemma3_text": HYBRID,
    "gpt_oss": {**EXPERTS, **HYBRID, "attn_implementation": "eager"},
    "llama4_text": CHUNKED,
}
REENCODED = {
    "qwen3_next": {**EXPERTS, **LINEAR},
    "mamba": {"state_size": 8, "attn_implementation": None},
    "bloom": {"n_layer": 3, "n_head": 4, "attn_implementation": None},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 3, "attn_implementation": None},
    "gpt_neo": {
        "attention_types": [[["global", "local"], 2]],
        "num_layers": 4,
        "num_heads": 4,
        "window_size": 12,
        "attn_implementation": None,
    },
}


def make(family, attn_implementation="sdpa", **overrides):
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SMALL, **overrides})
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attn_implementation)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


@pytest.fixture
def model():
    return make("qwen2")


@pytest.fixture(autouse=True)
def one_thread(caplog):
    caplog.set_level(logging.WARNING)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # models this small are slower on two
    yield
    torch.set_num_threads(before)


def ids(count, seed=0):
    generator = torch.Generator().manual_seed(1000 * seed + count)
    return torch.randint(20, VOCAB, (count,), generator=generator).tolist()


BASE = ids(5)
EDGE_CASES = {
    "usual": Rollout(ids(40), [7, 15, 23, 31, 40], [Answer(BASE, 1), Answer(ids(4), 1)]),
    "other_prompt_and_completion_length": Rollout(ids(29, 1), [12, 20, 28, 29], [Answer(ids(3))]),
    "empty_completion": Rollout(ids(9), [9], [Answer(BASE, 1), Answer(ids(2), 1)]),
    "one_token_rollout": Rollout(ids(1), [1], [Answer(BASE)]),
    "ends_on_a_step_boundary": Rollout(ids(21), [5, 13, 21], [Answer(BASE, 1)]),
    "tokens_behind_the_last_state": Rollout(ids(30), [5, 13], [Answer(BASE, 1)]),
    "one_token_answers": Rollout(ids(20), [4, 20], [Answer(ids(1)), Answer(ids(1, 1))]),
    "one_scored_token": Rollout(ids(20), [4, 20], [Answer(BASE, 4), Answer(BASE[:2], 1)]),
    "answer_is_prefix_of_another": Rollout(
        ids(20), [4, 12, 20], [Answer(BASE, 1), Answer(BASE[:3], 1), Answer([*BASE, 30], 1)]
    ),
    "equal_answers": Rollout(ids(20), [4, 20], [Answer(BASE, 1)] * 3),
    "no_hypotheses": Rollout(ids(20), [4, 12, 20], []),
    "many_hypotheses": Rollout(ids(17), [3, 17], [Answer(ids(3, seed)) for seed in range(7)]),
    "long_answer": Rollout(ids(17), [3, 17], [Answer(ids(19), 1), Answer(ids(2))]),
    "own_elicitations": Rollout(ids(20), [4, 12, 20], [Answer(BASE)], [[90, 11], [], [91]]),
}
ALL = list(EDGE_CASES.values())


@torch.no_grad()
def oracle(model, rollouts, reduction="mean", temperature=1.0, elicitation=ELICITATION):
    """{(rollout, state, hypothesis): log-likelihood}, softmax in float64."""
    values = {}
    for b, rollout in enumerate(rollouts):
        own = rollout.state_elicitations
        for s, position in enumerate(rollout.state_positions):
            context = [*rollout.token_ids[:position], *(own[s] if own else elicitation)]
            for h, answer in enumerate(rollout.answers):
                row = [*context, *answer.token_ids]
                logits = model(torch.tensor([row[:-1]])).logits[0].double()
                logps = (logits / temperature).log_softmax(-1)
                picked = [
                    logps[len(context) + j - 1, answer.token_ids[j]].item()
                    for j in range(answer.score_from, len(answer.token_ids))
                ]
                values[b, s, h] = sum(picked) / (len(picked) if reduction == "mean" else 1)
    return values


def score(model, rollouts, method="shared_prefix", **options):
    options = {"elicitation_ids": ELICITATION, **options}
    return answer_log_likelihoods(model, rollouts, method=method, **options)


def assert_matches(result, expected, tolerance=1e-4):
    assert result.answer_logps.dtype == torch.float32
    exists = result.state_mask[:, :, None] & result.hypothesis_mask[:, None]
    assert sorted(expected) == [tuple(index) for index in exists.nonzero().tolist()]
    assert not result.answer_logps[~exists].any()
    for index, value in expected.items():
        assert result.answer_logps[index].item() == pytest.approx(value, abs=tolerance)


def refusals(caplog):
    return [r.getMessage() for r in caplog.records if "cannot share prefixes" in r.getMessage()]


@pytest.mark.parametrize("family", SHARED)
def test_families_share_prefixes_exactly(family, caplog):
    model = make(family, **SHARED[family])
    expected = oracle(model, ALL)
    assert max(expected.values()) - min(expected.values()) > 1
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert_matches(shared, expected)
    assert_matches(plain, expected)
    assert shared.num_tokens < plain.num_tokens / 2
    assert not refusals(caplog)


def group(prompt, lengths, answers):
    """Rollouts of one prompt; their own log-probabilities are asked for, too."""
    return [
        Rollout(
            [*prompt, *ids(length, seed)],
            [len(prompt), *range(len(prompt) + 8, len(prompt) + length, 8), len(prompt) + length],
            answers,
            None,
            len(prompt),
        )
        for seed, length in enumerate(lengths)
    ]


ANSWERS = [Answer(BASE, 1), Answer(ids(4), 1), Answer([*BASE[:3], 30], 1)]
GROUPS = {
    "prompt shared": group(ids(60), [12, 20, 1, 17], ANSWERS),
    "prompt not worth it": group(ids(6), [12, 20, 17], ANSWERS),
    "no hypotheses": group(ids(30), [9, 10], []),
}


@torch.no_grad()
def own_oracle(model, rollout, temperature):
    logits = model(torch.tensor([rollout.token_ids])).logits[0].double() / temperature
    labels = torch.tensor(rollout.token_ids[1:])
    logps = logits[:-1].log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    return logps[rollout.score_from - 1 :].float()


@pytest.mark.parametrize("max_tokens", [100, 300, 16384])
@pytest.mark.parametrize(
    ("family", "method"),
    [
        ("qwen2", "reencode"),
        *((name, "shared_prefix") for name in ("qwen2", "gpt2", "gemma3_text", "gpt_oss")),
    ],
)
def test_groups_and_their_own_tokens(family, method, max_tokens, caplog):
    model = make(family, **SHARED[family])
    rollouts = [rollout for many in GROUPS.values() for rollout in many]
    options = {"temperature": 2.0, "completion_temperature": 0.7, "max_tokens": max_tokens}
    result = score(model, rollouts, method, **options)
    assert_matches(result, oracle(model, rollouts, temperature=2.0))
    for rollout, logps in zip(rollouts, result.completion_logps, strict=True):
        expected = own_oracle(model, rollout, 0.7)
        torch.testing.assert_close(logps[: len(expected)], expected, atol=1e-4, rtol=0)
        assert not logps[len(expected) :].any()
    assert not refusals(caplog)


def test_own_tokens_and_answers_read_at_one_place_have_their_completion_temperatures(model):
    rollouts = GROUPS["prompt shared"]
    options = {"temperature": 2.0, "completion_temperature": 0.7, "elicitation_ids": []}
    result = score(model, rollouts, **options)
    assert_matches(result, oracle(model, rollouts, temperature=2.0, elicitation=[]))
    torch.testing.assert_close(
        result.completion_logps[1], own_oracle(model, rollouts[1], 0.7), atol=1e-4, rtol=0
    )


def test_a_shared_prompt_and_a_first_state_are_fed_once(model):
    rollouts = GROUPS["prompt shared"]
    alone = sum(score(model, [rollout]).num_tokens for rollout in rollouts)
    branch = len(ELICITATION) + 4 + 3  # all that is fed of the third answer is the first one's
    together = score(model, rollouts, max_tokens=16384).num_tokens
    assert together == alone - 3 * (60 + branch)


def limited(model, most):
    """The model, with memory for so many tokens."""

    def hook(_, args, kwargs):
        if kwargs["input_ids"].numel() > most:
            raise torch.OutOfMemoryError("out of memory.")

    model.register_forward_pre_hook(hook, with_kwargs=True)
    return model


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_where_memory_runs_out_fewer_tokens_go_at_a_time(model, method, caplog):
    rollouts = [*ALL, *GROUPS["prompt shared"]]
    expected = oracle(model, rollouts)
    result = score(limited(model, 300), rollouts, method, max_tokens=1024)
    assert_matches(result, expected)
    assert result.max_tokens == 256
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        f"memory is short: answers are scored {n} tokens at a time" for n in (512, 256)
    ]


def test_by_default_a_pass_takes_a_quarter_of_the_free_memory_at_most(model):
    rollouts = [EDGE_CASES["usual"]]
    assert score(model, rollouts).max_tokens == 4096  # what is fast on a CPU
    bytes_per_token = psutil.virtual_memory().available // 4 // 1000
    model.config.intermediate_size = bytes_per_token // (3 * model.dtype.itemsize)
    assert score(model, rollouts).max_tokens == pytest.approx(1000, rel=0.5)


def test_a_row_that_does_not_fit_at_all_is_said(model):
    message = "out of memory. While scoring answers: set scoring_max_tokens below 64, or max_comp"
    with pytest.raises(torch.OutOfMemoryError, match=message):
        score(limited(model, 30), [EDGE_CASES["usual"]], max_tokens=256)


@pytest.mark.parametrize("family", REENCODED)
def test_families_that_cannot_share_are_reencoded_with_one_warning(family, caplog):
    model = make(family, **REENCODED[family])
    assert why_not_shared_prefix(model)
    for _ in range(2):
        assert_matches(score(model, ALL), oracle(model, ALL))
    assert len(refusals(caplog)) == 1


class InOrder(Qwen2ForCausalLM):
    """As Doge and XLM, it dies of packed rows with an error of another kind than torch's."""

    def forward(self, *args, position_ids=None, **kwargs):
        assert position_ids is None or (position_ids.diff() >= 0).all()
        return super().forward(*args, position_ids=position_ids, **kwargs)


def test_a_model_that_dies_of_packed_rows_is_reencoded_with_one_warning(caplog):
    model = make("qwen2")
    model.__class__ = InOrder
    for _ in range(2):
        assert_matches(score(model, ALL), oracle(model, ALL))
    (message,) = refusals(caplog)
    assert "its forward over packed rows raised AssertionError" in message


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
@pytest.mark.parametrize("case", EDGE_CASES)
def test_edge_cases(model, case, method):
    rollout = EDGE_CASES[case]
    assert_matches(score(model, [rollout], method), oracle(model, [rollout]))


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_no_rollouts(model, method):
    result = score(model, [], method)
    assert result.answer_logps.shape == (0, 0, 1)
    assert (result.state_mask.shape, result.hypothesis_mask.shape) == ((0, 0), (0, 1))
    assert result.num_tokens == 0


@pytest.mark.parametrize("method", ["shared_prefix", "reencode"])
def test_sum_temperature_and_empty_elicitation(model, method):
    options = {"reduction": "sum", "temperature": 2.0}
    assert_matches(score(model, ALL, method, **options), oracle(model, ALL, **options), 3e-4)
    bare = oracle(model, ALL, elicitation=[])
    assert_matches(score(model, ALL, method, elicitation_ids=[]), bare)


@pytest.mark.parametrize("max_tokens", [1, 60, 150, 10**6])
def test_values_do_not_depend_on_the_token_budget(model, max_tokens):
    expected = oracle(model, ALL)
    for method in ("shared_prefix", "reencode"):
        assert_matches(score(model, ALL, method, max_tokens=max_tokens), expected)


@pytest.mark.parametrize("family", ["qwen2", "gemma3_text", "mistral"])
def test_eager_attention(family, caplog):
    model = make(family, **{**SHARED[family], "attn_implementation": "eager"})
    assert_matches(score(model, ALL), oracle(model, ALL))
    assert not refusals(caplog)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: adapted(model)])
def test_other_attention_is_switched_for_the_pass_only(model, wrap):
    expected = oracle(wrap(model), ALL)
    model.config._attn_implementation = "flex_attention"
    seen = []
    hook = model.model.layers[0].register_forward_hook(
        lambda *_: seen.append(model.config._attn_implementation)
    )
    exactness._prefix_checks[model] = (
        1 << 20,
        None,
    )  # the check re-encodes, which flex would compile
    assert_matches(score(model, ALL), expected)
    hook.remove()
    assert set(seen) == {tree_attention.NAME}
    assert model.config._attn_implementation == "flex_attention"


def test_bfloat16_is_as_good_as_reencoding(model, caplog):
    exact = oracle(model, ALL)
    model.bfloat16()
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert (shared.answer_logps - plain.answer_logps).abs().max() < 0.1
    assert_matches(shared, exact, 0.3)
    assert not refusals(caplog)


def test_dropout_and_gradient_checkpointing_are_off():
    model = make("qwen2", attention_dropout=0.5)
    expected = oracle(model, ALL)
    model.gradient_checkpointing_enable()
    model.train()
    for method in ("shared_prefix", "reencode"):
        assert_matches(score(model, ALL, method), expected)


def adapted(model):
    """The model with a LoRA adapter that changes its values."""
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj", "lm_head"], task_type="CAUSAL_LM")
    wrapped = get_peft_model(model, config)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return wrapped.eval()


def test_lora_adapter_counts(model):
    before = oracle(model, ALL)
    wrapped = adapted(model)
    after = oracle(wrapped, ALL)
    assert max(abs(after[key] - before[key]) for key in after) > 0.1
    assert_matches(score(wrapped, ALL), after)
    with wrapped.disable_adapter():
        assert_matches(score(wrapped, ALL), before)


def test_prompt_tuning_is_reencoded(model, caplog):
    config = PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    wrapped = get_peft_model(model, config).eval()

    def unprefixed(row):
        output = wrapped(row)
        output.logits = output.logits[:, 3:]
        return output

    assert_matches(score(wrapped, ALL), oracle(unprefixed, ALL))
    assert "prompt learning" in refusals(caplog)[0]


def test_ddp(model, tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        assert_matches(score(DistributedDataParallel(model), ALL), oracle(model, ALL))
    finally:
        torch.distributed.destroy_process_group()


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


def test_values_of_other_answers_do_not_change_when_one_answer_does(model):
    def values(answer):
        rollout = Rollout(ids(40), [7, 15, 40], [Answer([21, *answer]), Answer([80, 81, 82])])
        return score(model, [rollout, ALL[1]]).answer_logps

    first, second = values([30, 31, 32]), values([40, 41, 42])
    assert (first[0, :3, 0] != second[0, :3, 0]).all()
    assert torch.equal(first[0, :, 1], second[0, :, 1])
    assert torch.equal(first[1], second[1])


def state_of(model):
    modules = list(model.modules())
    return (
        [module.training for module in modules],
        [len(module._forward_pre_hooks) + len(module._forward_hooks) for module in modules],
        [(p.requires_grad, p.grad, p.sum().item()) for p in model.parameters()],
        model.config._attn_implementation,
    )


@pytest.mark.parametrize("fails", [False, True])
def test_model_is_left_as_it_was(model, fails, monkeypatch):
    model.train()
    model.model.layers[1].eval()
    model.model.embed_tokens.requires_grad_(False)
    model.config._attn_implementation = "flex_attention"
    exactness._prefix_checks[model] = (1 << 20, None)
    before = state_of(model)
    if fails:
        monkeypatch.setattr(model.model.norm, "forward", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            score(model, ALL)
    else:
        assert not score(model, ALL).answer_logps.requires_grad
    monkeypatch.undo()
    assert state_of(model) == before


def test_head_reads_only_what_is_scored(model):
    rows = []
    hook = model.lm_head.register_forward_hook(lambda _, args, out: rows.append(out.shape[:2]))
    score(model, ALL[:1])
    rows.clear()
    score(model, ALL[:1])
    hook.remove()
    # Of 5 and 4 tokens, the first forced and different: 4 + 3 places for each of 5 states.
    assert rows == [(1, 35)]


class WatchedHead(torch.nn.Linear):
    """Remembers at how many places it was read at a time."""

    def forward(self, states):
        self.sizes.append(states.shape[1])
        return super().forward(states)


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
    model.lm_head.__class__, model.lm_head.sizes = WatchedHead, []
    score(model, rollouts)
    model.lm_head.sizes.clear()
    result = score(model, rollouts)
    is_tiled = max(model.lm_head.sizes) <= 16
    assert_matches(result, expected)
    torch.testing.assert_close(
        result.completion_logps[1][: len(rollouts[1].scored_positions)],
        own_oracle(model, rollouts[1], 1.0),
        atol=1e-4,
        rtol=0,
    )
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
    for _ in range(2):
        assert_matches(score(model, ALL), oracle(model, ALL))


def test_model_without_output_embeddings(model, monkeypatch):
    expected = oracle(model, ALL)
    monkeypatch.setattr(model, "get_output_embeddings", lambda: None)
    assert_matches(score(model, ALL), expected)


@pytest.mark.parametrize("family", ["mistral", "gemma3_text", "mamba", "mpt", "gpt_neo"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_self_check_alone_refuses_what_the_description_hides(family, dtype, caplog, monkeypatch):
    model = make(family, **{**SHARED, **REENCODED}[family]).to(dtype)
    monkeypatch.setattr(exactness, "why_not_shared_prefix", lambda _: None)
    for module in (model_traits, tree_attention):
        monkeypatch.setattr(module, "layer_types", lambda _: {"full_attention"})
    shared, plain = score(model, ALL), score(model, ALL, "reencode")
    assert torch.equal(shared.answer_logps, plain.answer_logps)
    assert len(refusals(caplog)) == 1


def test_hidden_window_is_found_when_rollouts_outgrow_it(caplog, monkeypatch):
    model = make("mistral", sliding_window=24)
    for module in (model_traits, tree_attention):
        monkeypatch.setattr(module, "layer_types", lambda _: {"full_attention"})
    short = [Rollout(ids(9), [5, 9], [Answer(BASE)])]
    assert_matches(score(model, short), oracle(model, short))
    assert not refusals(caplog)
    assert_matches(score(model, ALL), oracle(model, ALL))
    assert "nats per token" in refusals(caplog)[0]


def test_dynamic_rope_is_reencoded_without_padding(caplog):
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0}
    model = make("llama", max_position_embeddings=16, rope_parameters=rope)
    rollout = Rollout(ids(40), [2, 9, 30, 31, 40], [Answer(ids(3)), Answer(ids(8))])

    def forgetful(row):
        model(torch.tensor([[5]]))  # frequencies outlive a forward: a short one resets them
        return model(row)

    expected = oracle(forgetful, [rollout])
    padded = oracle(lambda row: model(torch.cat([row, row], 1)), [rollout])
    assert max(abs(padded[key] - expected[key]) for key in expected) > 0.1
    model(torch.tensor([[5]]))
    assert_matches(score(model, [rollout]), expected)
    assert "rotary" in refusals(caplog)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduction": "max"}, "reduction must be mean or sum, got 'max'"),
        ({"method": "cache"}, "method must be shared_prefix or reencode, got 'cache'"),
        ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
        ({"completion_temperature": -1.0}, "completion_temperature must be positive, got -1.0"),
    ],
)
def test_refusals_say_what_to_do(model, options, message):
    function = inspect.unwrap(answer_log_likelihoods)  # past the type checks of the test run
    with pytest.raises(ValueError, match=message):
        function(model, ALL, **{"elicitation_ids": ELICITATION, "method": "reencode", **options})


def test_other_modules_are_refused():
    with pytest.raises(ValueError, match="must be or wrap a transformers model, got Linear"):
        score(torch.nn.Linear(2, 2), ALL)
