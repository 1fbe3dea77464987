"""What `BARLTrainer` relies on in TRL, so that a TRL release that changes it says so here."""

import inspect

import pytest
import torch
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
        ("log", ["self", "logs", "start_time"]),
    ],
)
def test_overridden_methods_have_the_same_parameters(method, parameters):
    assert list(inspect.signature(getattr(GRPOTrainer, method)).parameters) == parameters


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
