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
from barl_trl.trainer.checks.contract import _NAMES, TESTED, check_versions
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


def take_out(path, name, monkeypatch):
    """From the module or class, and from all that its methods name."""
    owner = resolve_name(path)
    for one in owner.mro() if isinstance(owner, type) else [owner]:
        if name in vars(one):
            monkeypatch.delattr(one, name)
        for key, value in [*vars(one).items()] if "trl." in str(one) else ():
            function = inspect.unwrap(value)
            if inspect.isfunction(function) and name in function.__code__.co_names:
                names = tuple(f"{n}_new" if n == name else n for n in function.__code__.co_names)
                renamed = types.FunctionType(
                    function.__code__.replace(co_names=names),
                    {},
                    argdefs=function.__defaults__,
                    closure=function.__closure__,
                )
                monkeypatch.setattr(one, key, renamed)


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
    take_out("trl.GRPOTrainer", "_generate", monkeypatch)
    message = (
        f"trl must be as barl-trl relies on it, got trl 1.17.0 and {HERE}: "
        "trl.GRPOTrainer._generate is gone. barl-trl was run with "
        f"{RAN}: pip install 'trl>=1.16,<1.17' 'transformers>=5.17,<5.25'."
    )
    for _ in range(2):
        with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
            BARLTrainer(model="no/such-model", reward_funcs="math_verify")
        with pytest.raises(ImportError, match="_generate is gone"):
            make_trainer("grpo", args=BARLConfig(), model="no/such-model")


def test_a_copy_of_trl_that_lacks_what_is_imported(newer, tmp_path):
    """In a process that finds the copy first."""
    installed = Path(trl.__file__).parent
    shutil.copytree(installed, tmp_path / "trl", copy_function=os.symlink)
    for path in installed.rglob("*.py"):
        if "profiling_context" in (text := path.read_text()):
            changed = tmp_path / "trl" / path.relative_to(installed)
            changed.unlink()
            changed.write_text(text.replace("profiling_context", "profile"))
    script = tmp_path / "script.py"  # whose folder is the first of the path
    script.write_text(
        "import sys\n"
        "for name in [n for n in sys.modules if n.partition('.')[0] in ('trl', 'barl_trl')]:\n"
        "    del sys.modules[name]\n"
        "from barl_trl import BARLConfig, BARLTrainer\n"
    )
    run = subprocess.run([*PRELOADED, str(script)], capture_output=True, text=True)
    *_, last = run.stderr.splitlines()
    start = f"ImportError: trl must be as barl-trl relies on it, got trl 1.17.0 and {HERE}: cannot "
    assert last.startswith(f"{start}import name 'profiling_context' from 'trl.extras.profiling'")
    assert last.endswith("pip install 'trl>=1.16,<1.17' 'transformers>=5.17,<5.25'.")
    assert run.stderr.count("Error: ") == 1


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path, names in _NAMES.items() for name in names.split()],
)
def test_a_name_that_is_gone_is_named(monkeypatch, path, name):
    take_out(path, name, monkeypatch)
    with pytest.raises(ImportError, match=rf": {path}\.{name} is gone\. .*leave out what patches"):
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


def test_every_method_that_is_overridden_is_listed_and_takes_what_trls_takes():
    for cls in MIXINS:
        for name, value in vars(cls).items():
            theirs = getattr(GRPOTrainer, name, None)
            if inspect.isfunction(value) and theirs and name != "__init__":
                assert name in ATTRIBUTES
                kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
                taken = inspect.signature(value).parameters.values()
                names = [parameter.name for parameter in taken if parameter.kind not in kinds]
                assert [*inspect.signature(theirs).parameters][: len(names)] == names


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
    assert read - own - known <= ATTRIBUTES


def test_every_field_that_is_read_is_listed():
    of_trl = set(GRPOConfig.__dataclass_fields__) - set(TrainingArguments.__dataclass_fields__)
    of_trl -= {field.name for field in barl_fields()} - FIELDS
    nodes = [node for tree in TREES.values() for node in ast.walk(tree)]
    names = {
        n.attr for n in nodes if isinstance(n, ast.Attribute) and "args" in ast.unparse(n.value)
    }
    config_nodes = [n for name in ("barl_config", "model_card") for n in ast.walk(TREES[name])]
    names |= {n.value for n in config_nodes if isinstance(n, ast.Constant)}
    names |= {n.attr for n in config_nodes if isinstance(n, ast.Attribute)}
    assert names & of_trl <= FIELDS


def test_every_function_that_is_no_public_name_is_listed():
    imports = [
        n for tree in TREES.values() for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
    ]
    private = [node for node in imports if (node.module or "").startswith("trl.")]
    names = {f"{node.module}.{alias.name}" for node in private for alias in node.names}
    listed = {f"{path}.{name}" for path, names in _NAMES.items() for name in names.split()}
    assert names == {one for one in listed if one.startswith(("trl.extras.", "trl.trainer."))}
