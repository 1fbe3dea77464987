"""Bytes that training keeps and that live at once, against real models, optimizers and passes."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl.trainer.utils import add_fused_lm_head

from barl_trl.commands.plan.memory import (
    Passes,
    _LiveBytes,
    count_parameters,
    optimizer_bytes,
    peaks,
)

from ..plausibility.models import EXPERTS, make

LORA = LoraConfig(r=4, target_modules="all-linear")
PASSES = Passes(rows=4, generated=6, prompt=20, completion=44, on_cpu=True)


def test_parameters_are_those_of_the_model_without_making_it(model):
    count = sum(p.numel() for p in model.parameters())
    assert count_parameters(model.config) == (count, count, 0)


def test_an_adapter_alone_is_trained(model):
    adapted = get_peft_model(model, LORA)
    trained, total = adapted.get_nb_trainable_parameters()
    *blocks, head = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    quantized = sum(m.weight.numel() for m in blocks if not m.weight.requires_grad)
    assert head is model.lm_head
    assert count_parameters(model.config, LORA) == (total, trained, quantized)
    assert trained < total


@pytest.mark.parametrize(
    ("optim", "expected"),
    [("adamw_torch_fused", 8), ("adamw_bnb_8bit", 2), ("lion_32bit", 4), ("adafactor", 0)],
)
def test_bytes_of_optimizers(optim, expected):
    assert optimizer_bytes(optim, 4) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("optim", ["adamw_torch", "sgd", "rmsprop", "adafactor"])
def test_they_are_what_the_optimizer_keeps_for_a_matrix(optim, dtype):
    args = TrainingArguments("out", optim=optim, use_cpu=True, bf16=False, report_to=[])
    make, options = Trainer.get_optimizer_cls_and_kwargs(args)
    parameter = torch.nn.Parameter(torch.ones(256, 256, dtype=dtype))
    parameter.grad = torch.ones_like(parameter)
    optimizer = make([parameter], **options)
    optimizer.step()
    kept = sum(
        state.nbytes for state in optimizer.state[parameter].values() if torch.is_tensor(state)
    )
    # beside that a count of its steps; Adafactor a number for each row and column
    assert kept / parameter.numel() == pytest.approx(
        optimizer_bytes(optim, dtype.itemsize), abs=0.05
    )


def test_what_lives_is_counted_once_and_views_are_not():
    kept = torch.zeros(100)
    with _LiveBytes([kept]) as live:
        assert kept.view(10, 10).sum() == 0
        a = torch.zeros(1000)
        b = a.view(10, 100).t()
        del a
        assert live.now >= 4000
        c = b + 1
        assert live.now >= 8000
        del b, c
        assert live.now < 100
    assert 8000 <= live.most < 8100


def real(model, passes):
    """The profiler's count of what the allocator hands out, at the peak."""
    ids = torch.zeros(passes.rows, passes.prompt + passes.completion, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[:, 0] = 0  # as of a shorter prompt
    if passes.accumulates:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    earlier = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    with torch.profiler.profile(profile_memory=True, record_shapes=False) as profile:
        model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True)[
            "log_probs"
        ].sum().backward()
    now = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return earlier + peak


@pytest.mark.parametrize(
    ("adapter", "checkpointing", "accumulates"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, False)],
)
def test_an_update_takes_what_is_planned(adapter, checkpointing, accumulates):
    torch.manual_seed(0)
    passes = PASSES._replace(checkpointing=checkpointing, accumulates=accumulates)
    config = make("qwen2", num_hidden_layers=4).config
    planned, _ = peaks(config, passes, LORA if adapter else None)
    model = AutoModelForCausalLM.from_config(config)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    model = get_peft_model(model, LORA) if adapter else model
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    whole_tile = 4 * PASSES.rows * (20 + 44) * (32768 - config.vocab_size)  # not touched
    assert planned + whole_tile == pytest.approx(real(model.train(), passes), rel=0.1)


def test_keys_and_values_of_all_that_is_generated():
    config = make("qwen2").config
    tokens = PASSES.generated * (PASSES.prompt + PASSES.completion)
    heads = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    expected = 2 * config.num_hidden_layers * tokens * heads * 4
    assert peaks(config, PASSES)[1] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("family", ["gpt2", "gemma3_text", "mixtral"])
def test_families(family):
    config = make(family, **EXPERTS).config
    assert min(peaks(config, PASSES._replace(dtype=torch.bfloat16))) > 0


def test_what_asks_for_numbers_is_an_error_and_no_more(capfd):
    with pytest.raises(RuntimeError, match=r"BF16|BFloat16"):  # experts of torch, without data
        peaks(make("mixtral", **EXPERTS).config, PASSES)
    assert capfd.readouterr().err == ""


def test_on_a_gpu_the_head_has_a_tile_of_logits():
    on_gpu = PASSES._replace(on_cpu=False)
    tokens = 4 * 44  # of completions
    tile = 4 * tokens * 32768
    gradients = 4 * 64 * (tokens + 1000)  # of the hidden states, and of the head
    assert on_gpu.head_bytes(1000, 64, is_trained=True) == tile + gradients
    assert on_gpu.head_bytes(10**6, 64, is_trained=False) == tile + 4 * 64 * tokens
    config = make("qwen2").config
    more = on_gpu._replace(rows=8)
    assert peaks(config, more)[0] > peaks(config, on_gpu)[0]
