"""What a model is and allows, told from its wrappers, its modules and its description."""

import pytest
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig

from barl_trl.plausibility.model_traits import (
    causal_lm,
    depends_on_left_padding,
    evaluating,
    gather_head_with_model,
    table_positions,
)
from barl_trl.plausibility.queries import Answer, Rollout

from .cases import ALL, ids
from .models import EXPERTS, GPT2, REENCODED, SHARED, adapted, make
from .oracle import assert_matches, oracle, refusals, score

LONG = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}


def described(family, **settings):
    return AutoConfig.for_model(family, **settings)


def tuned(model):
    config = PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    return get_peft_model(model, config).eval()


# Wrappers


def test_the_causal_lm_is_found_inside_its_wrappers(model, one_process):
    assert causal_lm(model) is model
    assert causal_lm(DistributedDataParallel(adapted(model))) is model
    with pytest.raises(ValueError, match="got Linear"):
        score(torch.nn.Linear(2, 2), ALL)


@pytest.mark.slow  # with the slow ones DeepSpeed is there
@pytest.mark.parametrize("is_adapted", [False, True])
def test_zero_3_gathers_the_head_with_the_model(model, is_adapted):
    """The loss reads its weight without calling it. Training is tested in tests/distributed."""
    lora = LoraConfig(r=4, target_modules="all-linear")
    gather_head_with_model(get_peft_model(model, lora) if is_adapted else model)
    assert [head for _, head in model.ds_external_parameters()] == [model.lm_head.weight]
    gather_head_with_model(model.model)  # has no head
    assert "ds_external_parameters" not in vars(model.model)


# Modes


def test_dropout_and_gradient_checkpointing_are_off():
    model = make("qwen2", attention_dropout=0.5)
    expected = oracle(model, ALL)
    model.gradient_checkpointing_enable()
    model.train()
    for method in ("shared_prefix", "reencode"):
        assert_matches(score(model, ALL, method), expected)


def test_a_dynamic_rope_forgets_the_rows_that_were_scored():
    model = make("llama", max_position_embeddings=16, rope_parameters=dict(DYNAMIC))
    row = torch.tensor([ids(24)])
    before = model(input_ids=row).logits
    with evaluating(model):
        model(input_ids=torch.tensor([ids(60)]))
    torch.testing.assert_close(model(input_ids=row).logits, before, rtol=0, atol=0)


# Shared prefixes


def test_prompt_tuning_is_reencoded(model, caplog):
    wrapped = tuned(model)

    def unprefixed(row):
        output = wrapped(row)
        output.logits = output.logits[:, 3:]
        return output

    assert_matches(score(wrapped, ALL), oracle(unprefixed, ALL))
    assert "prompt learning" in refusals(caplog)[0]


def test_dynamic_rope_is_reencoded_without_padding(caplog):
    rope = {**DYNAMIC, "rope_theta": 100.0}
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


# Left padding


@torch.no_grad()
@pytest.mark.parametrize(
    "family", ["gemma3_text", "gpt2", "gpt_neo", "gpt_oss", "mistral", "mixtral", "phi3", "qwen2"]
)
def test_who_depends_on_left_padding(family):
    model, row = make(family, **(SHARED | REENCODED).get(family, EXPERTS)), ids(30)
    mask = torch.tensor([[0] * 50 + [1] * 30])
    padded = model(input_ids=torch.tensor([[0] * 50 + row]), attention_mask=mask).logits[:, 50:]
    gap = (padded - model(input_ids=torch.tensor([row])).logits).abs().max()
    assert (gap > 1e-2) == depends_on_left_padding(model) == (family in ("gpt2", "gpt_neo"))


# Descriptions


@pytest.mark.parametrize(
    ("family", "positions"),
    [("gpt2", 256), ("opt", 256), ("gptj", 256), ("roberta", 253), ("qwen2", None)],
)
def test_a_table_of_positions_ends_where_the_forward_fails(family, positions):
    sizes = {"is_decoder": True, "word_embed_proj_dim": 32, "ffn_dim": 48, "rotary_dim": 8}
    sizes |= {"gpt2": GPT2}.get(family, {}) | {"pad_token_id": 2, "n_layer": 2}
    model = make(family, **{"attn_implementation": "eager", **sizes})
    assert table_positions(model) == positions
    model(input_ids=torch.tensor([ids(positions or 300)]))
    if positions:
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.tensor([ids(positions + 1)]))
