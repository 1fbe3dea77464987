"""What a model is and allows, told from its wrappers and its description."""

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig

from barl_trl.plausibility.checks.model_traits import (
    causal_lm,
    evaluating,
    has_dropout,
    has_experts,
    is_sharded,
    layer_types,
    layer_values,
    rope_depends_on_length,
    scales_logits,
    shared_layout,
    table_positions,
    why_not_shared_prefix,
)
from barl_trl.plausibility.queries import Answer, Rollout

from .cases import ALL, ids
from .models import EXPERTS, REENCODED, SHARED, adapted, make
from .oracle import assert_matches, oracle, refusals, score

LONG = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}


def described(family, **settings):
    return AutoConfig.for_model(family, **settings)


# Wrappers


def test_the_causal_lm_is_found_inside_its_wrappers(model, one_process):
    assert causal_lm(model) is model
    assert causal_lm(DistributedDataParallel(adapted(model))) is model


def test_other_modules_are_refused():
    with pytest.raises(ValueError, match="must be or wrap a transformers model, got Linear"):
        score(torch.nn.Linear(2, 2), ALL)


def test_a_model_is_sharded_if_its_parameters_are_gathered(sharded):
    assert is_sharded(sharded)
    assert not is_sharded(make("qwen2"))


@pytest.mark.parametrize(
    "family", ["mixtral", "olmoe", "granitemoe", "qwen2_moe", "qwen2", "olmo2"]
)
def test_who_has_experts(family):
    assert has_experts(make(family, **EXPERTS)) == (family not in ("qwen2", "olmo2"))


# Modes


def test_dropout_and_gradient_checkpointing_are_off():
    model = make("qwen2", attention_dropout=0.5)
    expected = oracle(model, ALL)
    model.gradient_checkpointing_enable()
    model.train()
    for method in ("shared_prefix", "reencode"):
        assert_matches(score(model, ALL, method), expected)


@pytest.mark.parametrize("error", [None, RuntimeError])
def test_every_module_is_put_back_into_its_mode(model, error):
    model.train()
    model.model.layers[1].eval()
    before = [module.training for module in model.modules()]
    try:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            if error:
                raise error
    except RuntimeError:
        pass
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize(
    ("model", "draws"),
    [
        (lambda: make("qwen2"), False),
        (lambda: make("qwen2", attention_dropout=0.1), True),
        (lambda: make("gpt2"), True),  # by default
        (lambda: make("mixtral", router_jitter_noise=0.1), True),
        (lambda: get_peft_model(make("qwen2"), LoraConfig(lora_dropout=0.1)), True),
    ],
)
def test_a_rate_above_zero_anywhere_is_a_dropout(model, draws):
    assert has_dropout(model()) == draws


# Shared prefixes


@pytest.mark.parametrize("family", SHARED)
def test_trees_are_packed_where_attention_can_be_replaced(family):
    model = make(family, **SHARED[family])
    assert why_not_shared_prefix(model) is None
    is_packed = family in ("qwen2", "qwen3", "llama", "gpt2", "gpt_neox")
    assert shared_layout(model) == ("packed" if is_packed else "masked")  # windows, eager


def test_eager_attention_was_chosen_for_a_reason():
    assert shared_layout(make("qwen2", "eager")) == "masked"


@pytest.mark.parametrize(
    ("family", "overrides", "reason"),
    [
        ("qwen3_next", {}, "of an unknown type ['linear_attention']"),
        ("mamba", {}, "carry a recurrent state"),
        ("bloom", {}, "takes no position_ids"),
        ("mpt", {}, "takes no position_ids"),
        ("gpt_neo", {}, "depends on more than position_ids"),
        ("llama4_text", {"attn_temperature_tuning": True}, "depends on more than position_ids"),
        ("llama", {"rope_parameters": {**LONG, "rope_theta": 100.0}}, "longest row of a batch"),
    ],
)
def test_a_description_says_why_no_prefix_is_shared(family, overrides, reason):
    model = make(family, **{**(SHARED | REENCODED)[family], **overrides})
    assert reason in why_not_shared_prefix(model)


def test_prompt_tuning_is_reencoded(model, caplog):
    config = PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    wrapped = get_peft_model(model, config).eval()

    def unprefixed(row):
        output = wrapped(row)
        output.logits = output.logits[:, 3:]
        return output

    assert_matches(score(wrapped, ALL), oracle(unprefixed, ALL))
    assert "prompt learning" in refusals(caplog)[0]


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


# Descriptions


@pytest.mark.parametrize(
    ("config", "name", "values"),
    [
        (described("qwen2", intermediate_size=48), "intermediate_size", [48]),
        (described("qwen2"), "moe_intermediate_size", []),
        (
            described("gemma3n_text", intermediate_size=[48, 64], num_hidden_layers=2),
            "intermediate_size",
            [48, 64],
        ),
        (
            described(
                "qwen2", num_hidden_layers=2, per_layer_config={1: {"intermediate_size": 48}}
            ),
            "intermediate_size",
            [22016, 48],
        ),
        (described("mamba"), "layer_types", ["linear_attention"] * 32),
    ],
)
def test_a_setting_may_have_a_value_for_each_layer(config, name, values):
    assert layer_values(config, name) == values


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (described("llama"), {"full_attention"}),
        (described("mistral", sliding_window=8), {"sliding_attention"}),
        (described("mistral", sliding_window=None), {"full_attention"}),
        (described("gemma3_text"), {"sliding_attention", "full_attention"}),
    ],
)
def test_layers_without_a_described_type_are_all_alike(config, kinds):
    assert layer_types(config) == kinds


@pytest.mark.parametrize(
    ("config", "depends"),
    [
        (described("llama"), False),
        (described("llama", rope_parameters={"rope_type": "dynamic", "factor": 2.0}), True),
        (described("gemma3_text"), False),
        (described("gemma3_text", rope_parameters={"full_attention": LONG}), True),
        (described("gpt2"), False),
    ],
)
def test_a_rotary_embedding_may_depend_on_length_in_one_layer_type(config, depends):
    assert rope_depends_on_length(config) == depends


@pytest.mark.parametrize(
    ("config", "scales"),
    [
        (described("qwen2"), False),
        (described("gemma2"), True),  # caps them
        (described("gemma2", final_logit_softcapping=None), False),
        (described("granite", logits_scaling=3.0), True),
        (described("granite", logits_scaling=1.0), False),
        (described("gemma3"), False),  # of a model that sees images, the text's part counts
        (described("gemma3", text_config={"final_logit_softcapping": 30.0}), True),
    ],
)
def test_a_factor_other_than_one_or_a_cap_scales_logits(config, scales):
    assert scales_logits(config) == scales


@pytest.mark.parametrize(
    ("family", "positions"),
    [
        ("gpt2", 256),
        ("opt", 256),
        ("gptj", 256),
        ("ctrl", 256),
        ("roberta", 253),
        ("qwen2", None),
        ("bloom", None),
    ],
)
def test_a_table_of_positions_ends_where_the_forward_fails(family, positions):
    sizes = {"is_decoder": True, "word_embed_proj_dim": 32, "ffn_dim": 48, "rotary_dim": 8}
    sizes |= {**SHARED, **REENCODED}.get(family, {}) | {"pad_token_id": 2, "n_layer": 2}
    model = make(family, **{"attn_implementation": "eager", **sizes})
    assert table_positions(model) == positions
    model(input_ids=torch.tensor([ids(positions or 300)]))
    if positions:
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.tensor([ids(positions + 1)]))


def test_a_dynamic_rope_forgets_the_rows_that_were_scored():
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    model = make("llama", max_position_embeddings=16, rope_parameters=rope)
    row = torch.tensor([ids(24)])
    before = model(input_ids=row).logits
    with evaluating(model):
        model(input_ids=torch.tensor([ids(60)]))
    torch.testing.assert_close(model(input_ids=row).logits, before, rtol=0, atol=0)
