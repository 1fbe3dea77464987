"""Bytes that training keeps, against real models and real optimizers."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Trainer, TrainingArguments

from barl_trl.trainer.memory import count_parameters, optimizer_bytes, training_bytes

LORA = {"r": 4, "target_modules": "all-linear"}


def test_parameters_are_those_of_the_model_without_making_it(model):
    count = sum(p.numel() for p in model.parameters())
    assert count_parameters(model.config) == (count, count)


def test_an_adapter_alone_is_trained(model):
    adapted = get_peft_model(model, LoraConfig(**LORA))
    trained, total = adapted.get_nb_trainable_parameters()
    assert count_parameters(model.config, LoraConfig(**LORA)) == (total, trained)
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


@pytest.mark.parametrize(("stage", "spread"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_stages_spread_more_and_more(stage, spread):
    settings = {"itemsize": 2, "trained_itemsize": 2, "state_bytes": 12}
    sizes = training_bytes(100, 60, stage=stage, num_processes=4, **settings)
    whole = {"parameters": 200, "gradients": 120, "optimizer states": 720}
    order = ["optimizer states", "gradients", "parameters"]
    assert sizes == {n: size / (4 if n in order[:spread] else 1) for n, size in whole.items()}


def test_parameters_that_are_not_trained_may_take_less():
    """Such as those of 4 bits under an adapter, whose own are of 32."""
    sizes = training_bytes(
        100, 60, itemsize=0.5, trained_itemsize=4, state_bytes=8, stage=0, num_processes=1
    )
    assert sizes == {"parameters": 60 * 4 + 40 * 0.5, "gradients": 240, "optimizer states": 480}
