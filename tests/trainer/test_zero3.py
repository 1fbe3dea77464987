"""ZeRO-3 gathers the head's weight with the whole model, as the loss reads it without its module.

Training with ZeRO-3 is tested in tests/distributed.
"""

import pytest
from peft import LoraConfig, get_peft_model

from barl_trl.plausibility.model_traits import gather_head_with_model

pytestmark = pytest.mark.slow  # with the slow ones DeepSpeed is there


def gathered_with(module):
    """Parameters of other modules that DeepSpeed gathers when this one runs."""
    if "ds_external_parameters" not in vars(module):
        return []
    return [parameter for _, parameter in module.ds_external_parameters()]


def test_the_head_is_gathered_with_the_model(model):
    gather_head_with_model(model)
    [gathered] = gathered_with(model)
    assert gathered is model.lm_head.weight


def test_it_is_with_the_model_that_an_adapter_wraps(model):
    adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear"))
    gather_head_with_model(adapted)
    [gathered] = gathered_with(model)
    assert gathered is model.lm_head.weight
    assert gathered_with(adapted) == []


def test_a_model_without_a_head_has_nothing_to_gather(model):
    gather_head_with_model(model.model)
    assert gathered_with(model.model) == []
