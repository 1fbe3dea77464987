"""What barl-trl relies on is listed and there; a version that was not run leads to one warning
where it is intact, and to one error where it is not.
"""

import ast
import inspect
import os
import re
import shutil
import subprocess
import tomllib
import types
import warnings
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name

import pytest
import transformers.trainer
import trl
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from transformers import Trainer, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

import barl_trl.commands.plan
import barl_trl.trainer
from barl_trl import BARLConfig, BARLTrainer
from barl_trl.trainer.barl_fields import barl_fields
from barl_trl.trainer.checks.contract import (
    _NAMES,
    _PARAMETERS,
    TESTED,
    check_versions,
)
from barl_trl.trainer.methods import BaselineTrainer, make_trainer

from ..paths import ROOT
from ..preloaded import PRELOADED
from .rollouts import config, trainer

RAN = "trl>=1.16,<1.17 and transformers>=5.17,<5.25"
HERE = f"transformers {version('transformers')}"


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


def test_the_installed_versions_are_silent(tmp_path):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*was not run")
        config(tmp_path)


@pytest.mark.parametrize("method", ["barl", "grpo"])
def test_a_newer_trl_that_is_intact_is_warned_of_once_and_trains(
    newer, tmp_path, model, tokenizer, method
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config(tmp_path)
        args = config(tmp_path)
        made = trainer(model, tokenizer, args, cls=lambda **kwargs: make_trainer(method, **kwargs))
        made.train()
    assert made.state.global_step == 1
    (text,) = [str(w.message) for w in caught if "was not run" in str(w.message)]
    assert text == (
        f"barl-trl was not run with trl 1.17.0 and {HERE}, but with {RAN}. The names that it "
        "relies on are there. To go back: pip install 'trl>=1.16,<1.17' 'transformers>=5.17,<5.25'"
    )
    (place,) = [w.filename for w in caught if str(w.message) == text]
    assert place.endswith("rollouts.py")  # which makes the configuration


def test_a_changed_trl_is_refused_before_a_model_is_looked_for(newer, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "_generate", lambda self, prompts_new: None)
    message = (
        f"trl must be as barl-trl relies on it, got trl 1.17.0 and {HERE}: "
        "trl.GRPOTrainer._generate takes (prompts_new), not (prompts). barl-trl was run with "
        f"{RAN}: pip install 'trl>=1.16,<1.17' 'transformers>=5.17,<5.25'."
    )
    for _ in range(2):
        with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
            BARLTrainer(model="no/such-model", reward_funcs="math_verify")
        with pytest.raises(ImportError, match="_generate takes"):
            make_trainer("grpo", args=BARLConfig(), model="no/such-model")


def test_a_trl_that_is_patched_at_run_time_is_not_to_be_installed_again(monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "log", lambda self, values: None)
    with pytest.raises(ImportError, match=r"log takes .*: leave out what patches trl in this proc"):
        BARLConfig()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "def _calculate_rewards(self, inputs, prompts, ",
            "def _calculate_rewards(self, prompts, inputs, ",
            "trl.GRPOTrainer._calculate_rewards takes (prompts, inputs, completions, ",
        ),
        (
            "profiling_context",
            "profile",
            "cannot import name 'profiling_context' from 'trl.extras.profiling'",
        ),
    ],
)
def test_a_copy_of_trl_with_a_change(newer, tmp_path, old, new, found):
    """From the import to the configuration, in a process that finds the copy first."""
    installed = Path(trl.__file__).parent
    shutil.copytree(installed, tmp_path / "trl", copy_function=os.symlink)
    for path in installed.rglob("*.py"):
        if old in (text := path.read_text()):
            changed = tmp_path / "trl" / path.relative_to(installed)
            changed.unlink()
            changed.write_text(text.replace(old, new))
    script = tmp_path / "script.py"  # whose folder is the first of the path
    script.write_text(
        "import sys\n"
        "for name in [n for n in sys.modules if n.partition('.')[0] in ('trl', 'barl_trl')]:\n"
        "    del sys.modules[name]\n"
        "from barl_trl import BARLConfig, BARLTrainer\n"
        "BARLConfig('out', use_cpu=True, bf16=False)\n"
    )
    run = subprocess.run([*PRELOADED, str(script)], capture_output=True, text=True)
    *_, last = run.stderr.splitlines()
    start = f"ImportError: trl must be as barl-trl relies on it, got trl 1.17.0 and {HERE}: {found}"
    assert last.startswith(start)
    assert last.endswith("pip install 'trl>=1.16,<1.17' 'transformers>=5.17,<5.25'.")
    assert run.stderr.count("Error: ") == 1


PATHS = [f"{owner}.{name}" for owner, names in _PARAMETERS.items() for name in names]
FUNCTIONS = [path for path in PATHS if "GRPOTrainer" not in path]


@pytest.mark.parametrize("path", [path for path in PATHS if "__init__" not in path])
def test_a_function_with_other_parameters_is_named(monkeypatch, path):
    owner, _, name = path.rpartition(".")
    monkeypatch.setattr(resolve_name(owner), name, lambda another, /: None)
    with pytest.raises(ImportError, match=re.escape(f": {path} takes (another), not (")):
        BARLConfig()


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_function_that_is_gone_is_named(monkeypatch, path):
    owner, _, name = path.rpartition(".")
    monkeypatch.setattr(resolve_name(owner), name, None)
    match = f"^{path.partition('.')[0]} must be as .*: {path} is gone\\. "
    with pytest.raises(ImportError, match=match):
        BARLConfig()


@pytest.mark.parametrize(
    ("parameters", "is_kept"),
    [
        ("prompts, another=1, *more, **others", True),
        ("prompts", True),
        ("prompts, another", False),
        ("another, prompts", False),
        ("", False),
    ],
)
def test_further_parameters_with_defaults_are_no_change(monkeypatch, parameters, is_kept):
    monkeypatch.setattr(GRPOTrainer, "_tokenize_prompts", eval(f"lambda {parameters}: None"))
    if is_kept:
        return check_versions()
    with pytest.raises(ImportError, match=f"_tokenize_prompts takes .{parameters}., not "):
        check_versions()


def test_parameters_behind_the_dots_are_looked_for(monkeypatch):
    monkeypatch.setattr("trl.trainer.utils.add_fused_lm_head", lambda model, others=None: None)
    with pytest.raises(ImportError, match=r"takes \(model, others\), not \(model, ..., outputs\)"):
        check_versions()


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path, names in _NAMES.items() for name in names.split()],
)
def test_an_attribute_that_is_gone_is_named(monkeypatch, path, name):
    """From the class, and from all that its methods name."""
    for cls in resolve_name(path).mro():
        if name in vars(cls):
            monkeypatch.delattr(cls, name)
        for key, value in [*vars(cls).items()] if cls.__module__.startswith("trl.") else ():
            function = inspect.unwrap(value)
            if inspect.isfunction(function) and name in function.__code__.co_names:
                names = tuple(f"{n}_new" if n == name else n for n in function.__code__.co_names)
                renamed = types.FunctionType(
                    function.__code__.replace(co_names=names),
                    {},
                    argdefs=function.__defaults__,
                    closure=function.__closure__,
                )
                monkeypatch.setattr(cls, key, renamed)
    with pytest.raises(ImportError, match=rf"{path}\.{name} is gone"):
        check_versions()


def test_a_class_that_is_gone_is_named(monkeypatch):
    path = "trl.generation.vllm_generation.VLLMGeneration"
    monkeypatch.setattr(path, None)
    with pytest.raises(ImportError, match=f"{path}.generation_kwargs is gone"):
        check_versions()


def test_a_field_that_barl_has_too_is_named(monkeypatch):
    monkeypatch.setattr(GRPOConfig, "step_size", 1, raising=False)
    with pytest.raises(ImportError, match=r"trl.GRPOConfig.step_size is a new field, which BARL"):
        check_versions()


# Nothing that is relied on is missing in the lists.

ATTRIBUTES = set(_NAMES["trl.GRPOTrainer"].split())
FIELDS = set(_NAMES["trl.GRPOConfig"].split())
METHODS = set(_PARAMETERS["trl.GRPOTrainer"])
TREES = {
    path.stem: ast.parse(path.read_text())
    for path in [
        *Path(barl_trl.trainer.__path__[0]).rglob("*.py"),
        Path(barl_trl.commands.plan.__path__[0], "memory.py"),
    ]
}
MIXINS = [
    cls
    for cls in dict.fromkeys((*BARLTrainer.__mro__, *BaselineTrainer.__mro__))
    if cls.__module__.startswith("barl_trl")
]


CALLBACKS = ("belief_log", "rollout_recorder", "health")


def on_self(tree, context):
    """Attributes of a trainer, in its own classes and in callbacks."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, context)
        if ast.unparse(node.value) in ("self", "super()", "trainer", "self._trainer")
    }


def test_every_method_that_is_overridden_is_listed():
    own = {name for cls in MIXINS for name, value in vars(cls).items() if callable(value)}
    assert {name for name in own if hasattr(GRPOTrainer, name)} <= METHODS


def test_every_attribute_that_is_read_is_listed():
    own = {name for cls in MIXINS for name in vars(cls)}
    trees = [TREES[cls.__module__.rpartition(".")[2]] for cls in MIXINS]
    callbacks = [TREES[name] for name in CALLBACKS]
    own |= {n.name for c in callbacks for n in ast.walk(c) if isinstance(n, ast.FunctionDef)}
    trees += callbacks
    own |= {name for tree in trees for name in on_self(tree, ast.Store)} - ATTRIBUTES
    known = {*dir(Trainer), "_name"}
    known |= on_self(ast.parse(Path(transformers.trainer.__file__).read_text()), ast.Store)
    read = {name for tree in trees for name in on_self(tree, ast.Load)}
    assert read - own - known <= {*ATTRIBUTES, *METHODS}


def test_every_field_that_is_read_is_listed():
    of_trl = set(GRPOConfig.__dataclass_fields__) - set(TrainingArguments.__dataclass_fields__)
    of_trl -= {field.name for field in barl_fields()} - FIELDS
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    names = {
        n.attr for n in nodes if isinstance(n, ast.Attribute) and "args" in ast.unparse(n.value)
    }
    config_nodes = [n for name in ("barl_config",) for n in ast.walk(TREES[name])]
    names |= {n.value for n in config_nodes if isinstance(n, ast.Constant)}
    names |= {n.attr for n in config_nodes if isinstance(n, ast.Attribute)}
    assert names & of_trl <= FIELDS


def test_every_function_that_is_no_public_name_is_listed():
    imports = [
        n for tree in TREES.values() for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
    ]
    private = [node for node in imports if (node.module or "").startswith("trl.")]
    names = {f"{node.module}.{alias.name}" for node in private for alias in node.names}
    assert names == {path for path in FUNCTIONS if path.startswith("trl.")}
