"""A TRL that was not run: one warning where it is intact, one error where it is not."""

import os
import re
import shutil
import subprocess
import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
import trl
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.trainer.methods import make_trainer
from barl_trl.trainer.tested_versions import TESTED, check_versions

from ..paths import ROOT
from ..preloaded import PRELOADED
from .patched_trl import patched_trainer, renamed, source
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
        f"barl-trl was not run with trl 1.17.0 and {HERE}, but with {RAN}. What it relies on is "
        "there. To go back: pip install 'trl>=1.16,<1.17' 'transformers>=5.17,<5.25'"
    )
    (place,) = [w.filename for w in caught if str(w.message) == text]
    assert place.endswith("rollouts.py")  # which makes the configuration


def test_a_changed_trl_is_refused_before_a_model_is_looked_for(newer, tmp_path, monkeypatch):
    patched = patched_trainer(tmp_path, {"_generate": renamed(source("_generate"), "prompts")})
    monkeypatch.setattr(trl, "GRPOTrainer", patched)
    message = (
        f"trl must be as barl-trl relies on it, got trl 1.17.0 and {HERE}: GRPOTrainer._generate "
        "takes (prompts_new), not (prompts) (the rollouts' token ids and completions are taken "
        f"from it). barl-trl was run with {RAN}: pip install 'trl>=1.16,<1.17' "
        "'transformers>=5.17,<5.25'."
    )
    for _ in range(2):
        with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
            BARLTrainer(model="no/such-model", reward_funcs="math_verify")
        with pytest.raises(ImportError, match="_generate takes"):
            make_trainer("grpo", args=BARLConfig(), model="no/such-model")


def test_a_trl_that_is_patched_at_run_time_is_not_to_be_installed_again(tmp_path, monkeypatch):
    patched = patched_trainer(tmp_path, {"log": renamed(source("log"), "logs")})
    monkeypatch.setattr(trl, "GRPOTrainer", patched)
    with pytest.raises(ImportError, match=r"log takes .*: leave out what patches trl in this proc"):
        BARLConfig()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "def _calculate_rewards(self, inputs, prompts, ",
            "def _calculate_rewards(self, prompts, inputs, ",
            "GRPOTrainer._calculate_rewards takes (prompts, inputs, completions, ",
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
