"""What barl-trl relies on in TRL is listed and there, and does inside what it is relied on for.

A failure in the second half names what another TRL does differently.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest
import transformers.trainer
import yaml
from transformers import Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer
from trl.extras import profiling
from trl.generation import vllm_generation

import barl_trl.trainer
from barl_trl import BARLConfig, BARLTrainer
from barl_trl.trainer.config import own_fields
from barl_trl.trainer.contract import _NAMES, _PARAMETERS, check_versions

from .rollouts import config


@pytest.fixture(autouse=True)
def _unchecked():
    """As in a new process."""
    check_versions.cache_clear()
    yield
    check_versions.cache_clear()


@pytest.mark.filterwarnings("error:.*was not run")
def test_the_installed_versions_are_silent(tmp_path):
    config(tmp_path)


@pytest.mark.parametrize(
    ("owner", "name", "value", "found"),
    [
        (GRPOTrainer, "_generate", lambda self, prompts_new: None, "_generate takes"),
        (profiling, "profiling_context", None, "profiling_context is gone"),
        (vllm_generation, "VLLMGeneration", None, "generation_kwargs is gone"),
        (GRPOConfig, "step_size", 1, "step_size is a new field"),
    ],
)
def test_a_changed_trl_is_refused_before_any_model_is_read(monkeypatch, owner, name, value, found):
    monkeypatch.setattr(owner, name, value, raising=False)
    for _ in range(2):
        with pytest.raises(ImportError, match=found):
            BARLTrainer(model="no/such-model", reward_funcs="math_verify")
    with pytest.raises(ImportError, match=found):
        BARLConfig()


def test_further_parameters_with_defaults_are_no_change(monkeypatch):
    name = "_get_per_token_logps_and_entropies"
    known = "model, input_ids, attention_mask, logits_to_keep"
    monkeypatch.setattr(GRPOTrainer, name, eval(f"lambda {known}, more=1, *others, **rest: None"))
    check_versions()
    for changed in (f"{known}, more", "input_ids, model, attention_mask, logits_to_keep", ""):
        monkeypatch.setattr(GRPOTrainer, name, eval(f"lambda {changed}: None"))
        check_versions.cache_clear()
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

USED = yaml.safe_load(Path(__file__).with_name("contract.yaml").read_text())
USED = [(method, names) for method, of_each in USED.items() for names in of_each]


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
