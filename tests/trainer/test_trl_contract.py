"""What `BARLTrainer` relies on in TRL, so that a TRL release that changes it says so here."""

import copy
import inspect
from importlib.metadata import version

import pytest
import torch
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

from .rollouts import config, trainer

HERE = f"TRL {version('trl')} with transformers {version('transformers')}"

# method -> (its parameters, what they are relied on for)
OVERRIDDEN = {
    "_generate": ("prompts", "the rollouts' token ids and completions are taken from it"),
    "_get_per_token_logps_and_entropies": (
        "model input_ids attention_mask logits_to_keep ...",
        "the pass that scores the answers reads the old log-probabilities",
    ),
    "_calculate_rewards": (
        "inputs prompts completions completion_ids_list",
        "each answer is judged by one process, before the rewards",
    ),
    "_generate_and_score_completions": ("inputs", "the advantages are replaced in its result"),
    "log": ("logs start_time", "the share of time that scoring takes is logged"),
    "_save_checkpoint": ("model trial", "it writes the model card that is pushed"),
    "create_model_card": ("model_name dataset_name tags", "settings, data and results are added"),
    "_push_from_checkpoint": ("checkpoint_folder", "a push that failed is said"),
    "_save_rng_state": ("output_dir", "rollouts that are to be trained on are saved after it"),
    "_load_rng_state": ("checkpoint", "they are loaded after it"),
    "_get_train_sampler": ("dataset", "a resumed run skips the orders of epochs that are over"),
    "_prepare_inputs": ("generation_batch", "it alone takes rollouts from `_buffered_inputs`"),
}

# attribute of a trainer -> what it is relied on for
ATTRIBUTES = {
    "_metrics": "belief diagnostics are logged through it",
    "_logs": "hypotheses and weights are put into the completions table",
    "_tokenizer": "the elicitation is tokenized",
    "eos_token_ids": "the chain of thought ends there",
    "reward_weights": "the outcome reward is their weighted sum",
    "reward_func_names": "the model card names them",
    "num_generations": "so many rollouts are a group",
    "num_iterations": "it tells when old log-probabilities are asked for",
    "temperature": "the old log-probabilities are at this temperature",
    "use_vllm": "vLLM's rollouts ask for old log-probabilities",
    "vllm_importance_sampling_correction": "vLLM's rollouts ask for old log-probabilities",
    "_is_vlm": "models for images are refused",
    "_step": "a resumed run continues in the middle of a rollout batch",
    "_current_train_step_time": "a resumed run continues in the middle of a step",
    "_buffered_inputs": "rollouts that are to be trained on are saved with a checkpoint",
    "hub_model_id": "a warning names where a checkpoint was not pushed",
}


def broken(name, purpose, found):
    return (
        f"{HERE}: GRPOTrainer.{name} {found}. BARLTrainer relies on it ({purpose}): adapt it, then "
        "widen the range of trl in pyproject.toml."
    )


@pytest.mark.parametrize("method", OVERRIDDEN)
def test_overridden_methods_have_the_same_parameters(method):
    expected, purpose = OVERRIDDEN[method]
    assert hasattr(GRPOTrainer, method), broken(method, purpose, "is gone")
    parameters = list(inspect.signature(getattr(GRPOTrainer, method)).parameters)[1:]
    leading = expected.removesuffix(" ...").split()
    compared = parameters[: len(leading)] if expected.endswith("...") else parameters
    found = f"takes ({', '.join(parameters)}) instead of ({', '.join(expected.split())})"
    assert compared == leading, broken(method, purpose, found)


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
    for name, purpose in ATTRIBUTES.items():
        assert hasattr(grpo, name), broken(name, purpose, "is gone")
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


def test_rollouts_are_buffered_and_counted_in_micro_batches(model, tokenizer, tmp_path):
    """They are made where `_step` begins a round, or `_buffered_inputs` is None, and else kept."""
    seen = []

    class Recorder(GRPOTrainer):
        def _prepare_inputs(self, generation_batch):
            before = self._buffered_inputs
            inputs = super()._prepare_inputs(generation_batch)
            seen.append((self._step, self._buffered_inputs is not before))
            assert inputs is self._buffered_inputs[self._step % 2]
            if self._step == 4:
                self._buffered_inputs = None
            return inputs

    args = GRPOConfig(
        str(tmp_path),
        use_cpu=True,
        bf16=False,
        num_generations=4,
        per_device_train_batch_size=4,
        steps_per_generation=2,
        max_completion_length=8,
        max_steps=6,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer(model, tokenizer, args, cls=Recorder).train()
    made = "BARLTrainer resumes in the middle of a rollout batch by `_step` and `_buffered_inputs`"
    expected = [(0, True), (1, False), (2, True), (3, False), (4, True), (5, True)]
    assert seen == expected, f"{HERE}: {made}"
