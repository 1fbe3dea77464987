"""What `BARLTrainer` relies on in TRL, so that a TRL release that changes it says so here."""

import copy
import inspect

import pytest
import torch
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

from .rollouts import config, trainer


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("_generate_and_score_completions", ["self", "inputs"]),
        (
            "_calculate_rewards",
            ["self", "inputs", "prompts", "completions", "completion_ids_list"],
        ),
        ("_generate", ["self", "prompts"]),
        ("log", ["self", "logs", "start_time"]),
    ],
)
def test_overridden_methods_have_the_same_parameters(method, parameters):
    assert list(inspect.signature(getattr(GRPOTrainer, method)).parameters) == parameters


@pytest.mark.parametrize(
    ("steps_per_generation", "beta", "calls"),
    [(1, 0.0, []), (2, 0.0, ["forward"]), (2, 0.1, ["forward", "forward"])],
)
def test_old_log_probabilities_are_asked_for_first_and_before_the_rewards(
    model, tokenizer, tmp_path, steps_per_generation, beta, calls
):
    """With the arguments that `BARLTrainer` answers them from, and nothing else of the policy."""
    seen = []

    class Recorder(GRPOTrainer):
        def _generate(self, prompts):
            *output, extra_fields, images, tool_images = super()._generate(prompts)
            assert extra_fields == {}
            seen.append("generate")
            return *output, extra_fields, images, tool_images

        def _get_per_token_logps_and_entropies(
            self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        ):
            assert model is self.model
            seen.append("forward")
            assert not kwargs.get("compute_entropy")
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
            )

        def _calculate_rewards(self, *args):
            seen.append("rewards")
            return super()._calculate_rewards(*args)

    args = GRPOConfig(
        str(tmp_path),
        use_cpu=True,
        bf16=False,
        num_generations=4,
        per_device_train_batch_size=4,
        steps_per_generation=steps_per_generation,
        beta=beta,
        disable_tqdm=True,
    )
    # with an adapter the reference is the same model without it
    lora = LoraConfig(r=4) if beta else None
    grpo = trainer(copy.deepcopy(model), tokenizer, args, cls=Recorder, peft_config=lora)
    grpo.model.train()
    output = grpo._generate_and_score_completions([{"prompt": "1+1?", "solution": "2"}] * 4)
    assert seen == ["generate", *calls, "rewards"]
    assert ("old_per_token_logps" in output) == (calls != [])


def test_leading_parameters_of_the_constructor():
    parameters = list(inspect.signature(GRPOTrainer.__init__).parameters)
    leading = ["model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class"]
    assert parameters[1:7] == leading


def test_outputs_attributes_and_per_token_advantages(model, tokenizer, tmp_path):
    args = GRPOConfig(str(tmp_path), use_cpu=True, bf16=False, num_generations=4, disable_tqdm=True)
    grpo = trainer(model, tokenizer, args, cls=GRPOTrainer)
    for name in ("_metrics", "_logs", "_tokenizer", "eos_token_ids", "reward_weights", "_is_vlm"):
        assert hasattr(grpo, name), name
    grpo.model.train()
    rows = [{"prompt": "1+1?", "solution": "2"}] * 8
    output = grpo._generate_and_score_completions(rows)
    assert {"prompt_ids", "prompt_mask", "completion_mask", "advantages"} <= output.keys()
    assert output["advantages"].shape == (8,)
    assert len(grpo._logs["advantages"]) == 8
    grpo.current_gradient_accumulation_steps = 1
    output["advantages"] = torch.ones_like(output["completion_mask"], dtype=torch.float32)
    assert torch.isfinite(grpo._compute_loss(grpo.model, output))


def test_rewards_are_those_of_all_processes_in_their_order(model, tokenizer, tmp_path):
    barl_trainer = trainer(model, tokenizer, config(tmp_path))
    rows = [{"prompt": "1+1?", "solution": "2"}] * 2
    completions = [r"\boxed{2}", r"\boxed{3}"]
    rewards = barl_trainer._calculate_rewards(rows, ["1+1?"] * 2, completions, [[1], [2]])
    assert rewards.tolist() == [[1.0], [0.0]]
