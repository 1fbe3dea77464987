"""What `BARLTrainer` relies on in TRL is there, and what of it another TRL changes is said.

What `trl_contract.py` lists is taken away from copies of TRL, one thing at a time. What no list can
say is run.
"""

import ast
import copy
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import transformers.trainer
from peft import LoraConfig
from transformers import Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

import barl_trl.trainer
from barl_trl import BARLTrainer
from barl_trl.trainer.barl_fields import barl_fields
from barl_trl.trainer.methods import BaselineTrainer
from barl_trl.trainer.trl_contract import (
    ATTRIBUTES,
    FIELDS,
    IMPORTED,
    PARAMETERS,
    RETURNED,
    USED,
    VLLM,
    changes,
)

from .patched_trl import METHODS, patched_trainer, renamed, source, swapped, with_parameters
from .rollouts import config, trainer

FIELD_NAMES = [name for names, _ in FIELDS for name in names.split()]
IN_ORDER = [
    (method, one, other)
    for method, names, _ in USED
    for one, other in pairwise(names.split())
    if "'" not in one + other
]


def listed(names):
    return names.replace(" ...", "").split()


def test_the_installed_trl_is_as_expected():
    assert changes(GRPOTrainer, GRPOConfig) == []


@pytest.mark.parametrize("method", [name for name in PARAMETERS if name in METHODS])
def test_a_method_that_is_gone_is_named(tmp_path, method):
    patched = patched_trainer(tmp_path, {method: renamed(source(method), method)})
    assert f"GRPOTrainer.{method} " in "; ".join(changes(patched, GRPOConfig))


def changed_parameters():
    """Method, what it takes instead, and the parameter that misses: those of another TRL."""
    for method, (expected, _) in PARAMETERS.items():
        leading, _, named = (part.split() for part in expected.partition("..."))
        given = [*leading, *(f"{name}=None" for name in named)]
        for n, name in enumerate(leading + named):
            yield method, [*given[:n], *given[n + 1 :]], name
            yield method, [*given[:n], given[n].replace(name, f"{name}_new"), *given[n + 1 :]], name
        for n in range(len(leading) - 1):
            yield method, [*given[:n], given[n + 1], given[n], *given[n + 2 :]], given[n]
        yield method, [*leading, "another", *given[len(leading) :]], "another"


@pytest.mark.parametrize(("method", "parameters", "name"), list(changed_parameters()))
def test_parameters_that_are_others_are_named(tmp_path, method, parameters, name):
    patched = patched_trainer(tmp_path, {method: with_parameters(method, parameters)})
    (found,) = changes(patched, GRPOConfig)
    taken = ", ".join(parameters).replace("=None", "")
    assert found.startswith(f"GRPOTrainer.{method} takes ({taken}), not (")
    assert name in found


@pytest.mark.parametrize(
    "method", [name for name, (names, _) in PARAMETERS.items() if "..." in names]
)
def test_further_parameters_are_no_change(tmp_path, method):
    leading, _, named = (part.split() for part in PARAMETERS[method][0].partition("..."))
    parameters = [*leading, "another=1", *(f"{name}=None" for name in named), "**others"]
    patched = patched_trainer(tmp_path, {method: with_parameters(method, parameters)})
    assert changes(patched, GRPOConfig) == []


def changed_results():
    for method, (expected, _) in RETURNED.items():
        names = listed(expected)
        text, _, returned = source(method).rpartition("return ")
        values = returned.strip().split(", ")
        for n, name in enumerate(names):
            if name != "_":
                other = next(m for m in range(len(values)) if m != n)
                exchanged = {n: values[other], other: values[n]}
                yield method, text, name, [exchanged.get(m, v) for m, v in enumerate(values)]
                yield method, text, name, [*values[:n], *values[n + 1 :]]
                yield method, text, name, [*values[:n], f"{name}_new", *values[n + 1 :]]
        yield method, text, names[0], [f"Result({returned.strip()})"]


@pytest.mark.parametrize(("method", "text", "name", "values"), list(changed_results()))
def test_results_that_are_others_are_named(tmp_path, method, text, name, values):
    result = ", ".join(values)
    patched = patched_trainer(tmp_path, {method: f"{text}return {result}\n"})
    (found,) = changes(patched, GRPOConfig)
    assert found.startswith(f"GRPOTrainer.{method} returns ({result}), not (")
    assert name in found


@pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, names, _ in USED for name in names.split()]
)
def test_what_is_not_used_any_more_is_named(tmp_path, method, name):
    text = source(method).replace(f"def {method}(", "def METHOD(")
    text = renamed(text, name.strip("'")).replace("def METHOD(", f"def {method}(")
    patched = patched_trainer(tmp_path, {method: text})
    assert f"GRPOTrainer.{method} does not use {name}" in "; ".join(changes(patched, GRPOConfig))


@pytest.mark.parametrize(("method", "one", "other"), IN_ORDER)
def test_another_order_is_named(tmp_path, method, one, other):
    text = source(method).replace(f"def {method}(", "def METHOD(")
    text = swapped(text, one, other).replace("def METHOD(", f"def {method}(")
    found = "; ".join(changes(patched_trainer(tmp_path, {method: text}), GRPOConfig))
    assert f"GRPOTrainer.{method} does not use {other} after {one}" in found


def test_calls_that_moved_into_another_method_are_found(tmp_path):
    """As when TRL divides a long method."""
    method = "_generate_and_score_completions"
    call = "self._calculate_rewards(inputs, prompts, completions, completion_ids_list)"
    moved = "    def _rewards(self, *args):\n        return self._calculate_rewards(*args)\n"
    text = source(method).replace(call, call.replace("_calculate_rewards", "_rewards"))
    patched = patched_trainer(tmp_path, {method: text, "_rewards": moved})
    assert changes(patched, GRPOConfig) == []


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_that_is_gone_is_named(tmp_path, name):
    texts = {
        method: source(method).replace(f"self.{name}", f"self.{name}_new") for method in METHODS
    }
    texts = {method: text for method, text in texts.items() if text != source(method)}
    found = "; ".join(changes(patched_trainer(tmp_path, texts), GRPOConfig))
    assert f"GRPOTrainer.{name} is never set ({ATTRIBUTES[name]})" in found


def test_an_attribute_that_became_a_property_is_there(tmp_path):
    texts = {"__init__": source("__init__").replace("self.temperature =", "self._temperature =")}
    patched = patched_trainer(tmp_path, texts)
    patched.temperature = property(lambda self: self._temperature)
    assert changes(patched, GRPOConfig) == []


@pytest.mark.parametrize("name", FIELD_NAMES)
def test_a_field_that_is_gone_is_named(name):
    fields = {k: v for k, v in GRPOConfig.__dataclass_fields__.items() if k != name}
    patched = type("GRPOConfig", (), {"__dataclass_fields__": fields})
    (found,) = changes(GRPOTrainer, patched)
    assert found.startswith(f"GRPOConfig.{name} is gone (")


def test_a_field_that_barl_has_too_is_named():
    fields = GRPOConfig.__dataclass_fields__ | {"step_size": None}
    patched = type("GRPOConfig", (), {"__dataclass_fields__": fields})
    (found,) = changes(GRPOTrainer, patched)
    assert found.startswith("GRPOConfig.step_size is a new field (")


@pytest.mark.parametrize("path", IMPORTED)
def test_a_function_that_is_gone_is_named(monkeypatch, path):
    module, _, name = path.rpartition(".")
    monkeypatch.delattr(import_module(module), name)
    assert [text.split(" (")[0] for text in changes(GRPOTrainer, GRPOConfig)] == [f"{path} is gone"]


@pytest.mark.parametrize("path", IMPORTED)
def test_a_function_with_other_parameters_is_named(monkeypatch, path):
    module, _, name = path.rpartition(".")
    monkeypatch.setattr(import_module(module), name, lambda another, /: None)
    (found,) = changes(GRPOTrainer, GRPOConfig)
    assert found.startswith(f"{path} takes (another), not (")


def test_settings_of_vllm_that_are_gone_are_named(monkeypatch):
    class Renamed:
        def __init__(self, generation_kwargs):
            self.kwargs = generation_kwargs

    for vllm in (Renamed, None):
        monkeypatch.setattr("trl.generation.vllm_generation.VLLMGeneration", vllm)
        (found,) = changes(GRPOTrainer, GRPOConfig)
        assert found.startswith(f"{VLLM}.generation_kwargs is gone (")


# Nothing that is relied on is missing in the lists.

TREES = {
    path.stem: ast.parse(path.read_text())
    for path in Path(barl_trl.trainer.__path__[0]).glob("*.py")
}
MIXINS = [
    cls
    for cls in dict.fromkeys((*BARLTrainer.__mro__, *BaselineTrainer.__mro__))
    if cls.__module__.startswith("barl_trl")
]


def on_self(tree, context):
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, context)
        if ast.unparse(node.value) in ("self", "super()")
    }


def test_every_method_that_is_overridden_is_listed():
    own = {name for cls in MIXINS for name, value in vars(cls).items() if callable(value)}
    assert {name for name in own if hasattr(GRPOTrainer, name)} <= set(PARAMETERS)


def test_every_attribute_that_is_read_is_listed():
    own = {name for cls in MIXINS for name in vars(cls)}
    trees = [TREES[cls.__module__.rpartition(".")[2]] for cls in MIXINS]
    own |= {name for tree in trees for name in on_self(tree, ast.Store)} - set(ATTRIBUTES)
    known = {*dir(Trainer), "_name"}
    known |= on_self(ast.parse(Path(transformers.trainer.__file__).read_text()), ast.Store)
    read = {name for tree in trees for name in on_self(tree, ast.Load)}
    assert read - own - known <= {*ATTRIBUTES, *PARAMETERS}


def test_every_field_that_is_read_is_listed():
    of_trl = set(GRPOConfig.__dataclass_fields__) - set(TrainingArguments.__dataclass_fields__)
    of_trl -= {field.name for field in barl_fields()} - set(FIELD_NAMES)
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    names = {
        n.attr for n in nodes if isinstance(n, ast.Attribute) and "args" in ast.unparse(n.value)
    }
    config_nodes = [n for name in ("barl_config", "model_card") for n in ast.walk(TREES[name])]
    names |= {n.value for n in config_nodes if isinstance(n, ast.Constant)}
    names |= {n.attr for n in config_nodes if isinstance(n, ast.Attribute)}
    assert names & of_trl <= set(FIELD_NAMES)


def test_every_function_that_is_no_public_name_is_listed():
    imports = [
        n for tree in TREES.values() for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
    ]
    private = [node for node in imports if (node.module or "").startswith("trl.")]
    assert {f"{node.module}.{alias.name}" for node in private for alias in node.names} == set(
        IMPORTED
    )


# What no list can say.


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


def test_the_loss_is_the_models_where_old_log_probabilities_are_not_asked_for(
    model, tokenizer, tmp_path, monkeypatch
):
    """As by a TRL that takes fewer rollouts for stale than `BARLTrainer` does."""
    method = "_generate_and_score_completions"
    stale = "self.args.gradient_accumulation_steps % generate_every != 0"
    text = source(method).replace(stale, "self.args.gradient_accumulation_steps < 0")
    patched = patched_trainer(tmp_path, {method: text})
    monkeypatch.setattr(GRPOTrainer, method, getattr(patched, method))
    args = config(tmp_path, per_device_train_batch_size=4, steps_per_generation=2, max_steps=2)
    made = trainer(model, tokenizer, args)
    assert made.train().global_step == 2


def test_outputs_and_per_token_advantages(model, tokenizer, tmp_path):
    args = GRPOConfig(str(tmp_path), use_cpu=True, bf16=False, num_generations=4, disable_tqdm=True)
    grpo = trainer(model, tokenizer, args, cls=GRPOTrainer)
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
    assert seen == [(0, True), (1, False), (2, True), (3, False), (4, True), (5, True)]
