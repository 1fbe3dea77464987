"""What barl-trl relies on in TRL is listed and there, and does inside what it is relied on for.

A failure in the second half names what another TRL does differently.
"""

import ast
import inspect
import re
import tomllib
import warnings
from pathlib import Path

import pytest
import torch
import transformers.trainer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from transformers import Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer
from trl.extras import profiling
from trl.generation import vllm_generation

import barl_trl.trainer
from barl_trl import BARLConfig, BARLTrainer
from barl_trl.trainer.config import own_fields
from barl_trl.trainer.contract import _NAMES, _PARAMETERS, TESTED, check_versions

from ..paths import ROOT
from .playing import played
from .rollouts import ROWS as CASE_ROWS
from .rollouts import config, trainer
from .test_agents import ROWS, agent, look, plays


@pytest.fixture(autouse=True)
def _unchecked():
    """As in a new process."""
    check_versions.cache_clear()
    yield
    check_versions.cache_clear()


@pytest.fixture
def newer(tmp_path, monkeypatch):
    """The metadata of TRL 1.17 stand before those of the installed one."""
    stub = tmp_path / "trl-1.17.0.dist-info"
    stub.mkdir()
    (stub / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.17.0\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_the_versions_that_were_run_are_those_of_the_set_ups():
    for file in ("constraints.txt", "constraints-lowest.txt", "constraints-vllm.txt"):
        pins = dict(re.findall(r"^(trl|transformers)==(\S+)", (ROOT / file).read_text(), re.M))
        for name, pinned in pins.items():
            assert pinned in SpecifierSet(TESTED[name]), file
            assert "lowest" not in file or TESTED[name].startswith(f">={pinned.removesuffix('.0')}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    assert required["transformers"] == SpecifierSet(">=5.17,<6")
    assert required["trl"] == SpecifierSet(">=1.16,<2")


def test_the_installed_versions_are_silent_and_a_newer_trl_that_is_intact_is_warned_of(
    newer, tmp_path, monkeypatch
):
    for installed, number in ((False, 1), (True, 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            config(tmp_path), config(tmp_path)
        said = [one for one in caught if "was not run" in str(one.message)]
        assert len(said) == number
        assert all(one.filename.endswith("rollouts.py") for one in said)  # which configures
        if not installed:
            monkeypatch.undo()  # the newer one
            check_versions.cache_clear()


@pytest.mark.parametrize(
    ("owner", "name", "value", "found"),
    [
        (GRPOTrainer, "_generate", lambda self, prompts_new: None, "_generate takes"),
        (profiling, "profiling_context", None, "profiling_context is gone"),
        (vllm_generation, "VLLMGeneration", None, "generation_kwargs is gone"),
        (GRPOConfig, "step_size", 1, "step_size is a new field"),
    ],
)
def test_a_changed_trl_is_refused_before_a_model_is_looked_for(
    monkeypatch, owner, name, value, found
):
    monkeypatch.setattr(owner, name, value, raising=False)
    for _ in range(2):
        with pytest.raises(ImportError, match=found):
            BARLTrainer(model="no/such-model", reward_funcs="math_verify")
    with pytest.raises(ImportError, match=found):
        BARLConfig()


def test_a_name_that_is_gone_or_cannot_be_imported_is_a_change(monkeypatch):
    def importing(name):
        raise ImportError("cannot import name 'profiling_context'", name="trl.extras.profiling")

    monkeypatch.setattr(barl_trl.trainer, "_attribute", importing)
    with pytest.raises(ImportError, match="'profiling_context'"):
        _ = barl_trl.trainer.BARLTrainer_
    monkeypatch.setitem(_NAMES, "trl.GRPOTrainer", "_metrics _no_such_attribute")
    with pytest.raises(ImportError, match=r"trl\.GRPOTrainer\._no_such_attribute is gone"):
        check_versions()


def test_further_parameters_with_defaults_are_no_change(monkeypatch):
    name = "_get_per_token_logps_and_entropies"
    for parameters, is_kept in (
        ("model, input_ids, attention_mask, logits_to_keep, another=1, *more, **others", True),
        ("model, input_ids, attention_mask, logits_to_keep, another", False),
        ("input_ids, model, attention_mask, logits_to_keep", False),
        ("", False),
    ):
        monkeypatch.setattr(GRPOTrainer, name, eval(f"lambda {parameters}: None"))
        check_versions.cache_clear()
        if is_kept:
            check_versions()
            continue
        with pytest.raises(ImportError, match=f"{name} takes"):
            check_versions()


# Nothing that is relied on is missing in the lists.

TREES = [ast.parse(path.read_text()) for path in Path(barl_trl.trainer.__path__[0]).rglob("*.py")]
METHODS = {*_PARAMETERS["trl.GRPOTrainer"], *_NAMES["trl.GRPOTrainer"].split()}


def on_trainer(tree, context):
    """Attributes of a trainer, in its own classes and in callbacks."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, context)
        if ast.unparse(node.value) in ("self", "super()", "trainer", "self._trainer")
    }


def test_every_method_that_is_overridden_is_listed():
    classes = [cls for cls in BARLTrainer.__mro__ if cls.__module__.startswith("barl_trl")]
    own = {name for cls in classes for name, value in vars(cls).items() if callable(value)}
    assert {name for name in own if hasattr(GRPOTrainer, name)} <= METHODS


def test_every_attribute_that_is_read_is_listed():
    tree = ast.parse(inspect.getsource(GRPOTrainer))
    of_trl = on_trainer(tree, ast.Store) | {*vars(GRPOTrainer)}
    of_base = on_trainer(ast.parse(Path(transformers.trainer.__file__).read_text()), ast.Store)
    read = {name for tree in TREES for name in on_trainer(tree, ast.Load)}
    assert read & of_trl - of_base - {*dir(Trainer)} <= METHODS


def test_every_field_that_is_read_is_listed():
    of_trl = set(GRPOConfig.__dataclass_fields__) - set(TrainingArguments.__dataclass_fields__)
    nodes = [node for tree in TREES for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in nodes if "args" in ast.unparse(node.value)}
    assert read & of_trl <= {*_NAMES["trl.GRPOConfig"].split()}
    assert {one.name for one in own_fields()} & of_trl <= {*_NAMES["trl.GRPOConfig"].split()}


# What TRL's methods do inside: their names in order, and in a run.

SCORING = "_generate_and_score_completions"
USED = (
    # old log-probabilities are asked for first and before the rewards, where rollouts are older
    # than the policy, or vLLM's are corrected
    (SCORING, "_generate _get_per_token_logps_and_entropies ref_model _calculate_rewards _logs"),
    (SCORING, "gradient_accumulation_steps _get_per_token_logps_and_entropies"),
    (SCORING, "vllm_importance_sampling_correction _get_per_token_logps_and_entropies"),
    *[(SCORING, f"'{name}'") for name in ("advantages", "completion_mask", "old_per_token_logps")],
    (SCORING, "'importance_sampling_ratio'"),
    (SCORING, "environments _generate"),  # agents' answers are read there
    (SCORING, "extra_fields _calculate_rewards"),
    ("_generate", "_tool_call_loop 'env_mask'"),  # of the model's own tokens
    ("_generate", "rollout_func 'env_mask'"),
    ("_generate", "return prompt_ids completion_ids tool_mask completions extra_fields"),
    # chat templates' ends are put there, and greedy generation
    ("_generate_single_turn", "eos_token_ids"),
    ("_generate_single_turn", "vllm_generation"),
    ("_generate_single_turn", "generation_kwargs"),
    ("_calculate_rewards", "_log_completion_extra"),  # graders' reasons
    ("_log_completion_extra", "_pending_extra_logs"),
    ("_compute_loss", "dim 'advantages'"),  # of every token
    ("_compute_loss", "_get_per_token_logps_and_entropies 'old_per_token_logps'"),  # first ratio
    ("_prepare_inputs", "_step _buffered_inputs"),  # a resumed run begins a rollout batch
    ("_prepare_inputs", SCORING),
    ("training_step", "training_step _step"),
    ("log", "_metrics log clear"),
    ("create_model_card", "_tag_names"),
    ("create_model_card", "_name"),
    ("create_model_card", "_paper"),
)
"""Method, and the names and texts that it uses in this order."""


def first_not_used(text, expected):
    """The first name that does not stand behind the earlier ones; None if all do."""
    for name in expected.split():
        quoted = f"[\"']{name[1:-1]}[\"']"
        found = re.search(quoted if "'" in name else rf"\b{name}\b", text)
        if not found:
            return name
        text = text[found.end() :]
    return None


@pytest.mark.parametrize(("method", "expected"), USED)
def test_names_are_used_in_their_order(method, expected):
    _, _, body = inspect.getsource(getattr(GRPOTrainer, method)).partition(":\n")
    assert first_not_used(body, expected) is None


def test_the_loss_takes_an_advantage_of_every_token(model, tokenizer, tmp_path):
    grpo = trainer(model, tokenizer, config(tmp_path), cls=GRPOTrainer)
    grpo.model.train()
    output = grpo._generate_and_score_completions(CASE_ROWS)
    assert output["advantages"].shape == (8,)
    grpo.current_gradient_accumulation_steps = 1
    output["advantages"] = torch.ones_like(output["completion_mask"], dtype=torch.float32)
    assert torch.isfinite(grpo._compute_loss(grpo.model, output))


def test_the_mask_of_tools_is_padded_with_ones_where_completions_end(tmp_path):
    """So a token's weight needs both masks: that of tools alone holds padding for the model's."""
    seen = []

    class Recorder(GRPOTrainer):
        def _generate(self, prompts):
            output = super()._generate(prompts)
            seen.extend(output[2])
            return output

    output = played(agent(tmp_path, cls=Recorder, tools=[look]), ROWS, plays())
    lengths = {len(mask) for mask in seen}
    assert len(lengths) > 1
    for row, mask in enumerate(seen):
        padding = max(lengths) - len(mask)
        assert output["tool_mask"][row].tolist() == mask + [1] * padding
        assert output["completion_mask"][row].tolist() == [1] * len(mask) + [0] * padding
