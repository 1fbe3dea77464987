"""Target modules that a model does not have are told before its weights are loaded."""

import pytest
from peft import LoraConfig

from barl_trl.trainer.checks.adapters import refuse_missing_modules


@pytest.mark.parametrize(
    ("targets", "hint"),
    [
        (["q_prj"], "did you mean 'q_proj'?"),
        (["Wqkv"], "'all-linear' takes all of them."),
        (r".*\.q_prj", "did you mean 'q_proj'?"),
        ("q_proj", r"one name alone is a regular expression of whole paths, here '.*\.q_proj'."),
    ],
)
def test_modules_that_a_model_lacks_are_refused_with_those_that_it_has(model_path, targets, hint):
    with pytest.raises(ValueError, match=r"lora_target_modules .* must name modules") as said:
        refuse_missing_modules(model_path, LoraConfig(target_modules=targets), {})
    assert "down_proj, gate_proj, k_proj" in str(said.value)
    assert str(said.value).endswith(hint)


@pytest.mark.parametrize(
    "targets", [["q_proj", "Wqkv"], r".*\.q_proj", "all-linear", ["0.self_attn.q_proj"], None]
)
def test_what_peft_would_find_is_left_to_it(model_path, targets):
    refuse_missing_modules(model_path, LoraConfig(target_modules=targets), {})


def test_without_an_adapter_and_with_a_loaded_model_nothing_is_looked_at(model, model_path):
    refuse_missing_modules(model_path, None, {})
    refuse_missing_modules(model, LoraConfig(target_modules=["q_prj"]), {})
