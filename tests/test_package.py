"""The wheel needs no clone: installed in a fresh environment, it trains."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyarrow import parquet

from .paths import ROOT

pytestmark = pytest.mark.slow
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
CPU_TORCH = ["--extra-index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0"]


def run(*command, cwd):
    """Run a command that does not find the clone, and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that is built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True)
    [path] = folder.glob("barl_trl-*.whl")
    return path


def test_it_has_every_file_of_the_package(wheel):
    package = ROOT / "src" / "barl_trl"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    names = set(zipfile.ZipFile(wheel).namelist())
    own = {name for name in names if ".dist-info/" not in name}
    assert {f"barl_trl/{path.relative_to(package)}" for path in files} == own


class User:
    """Somebody who installed the wheel, and has no clone."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name, *arguments):
        return run(str(self.folder / "env" / "bin" / name), *arguments, cwd=self.folder)

    def copy(self, name, **changed):
        """Copy an example, with other values of some of its arguments."""
        text = (ROOT / "examples" / name).read_text()
        for argument, value in changed.items():
            text, count = re.subn(rf"\b{argument}=\d+", f"{argument}={value}", text)
            assert count == 1
        (self.folder / name).write_text(text)


@pytest.fixture(scope="module")
def user(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    install = [str(folder / "env" / "bin" / "python"), *PIP, "install"]
    install += ["-c", ROOT / "constraints.txt"]
    run(*install, *CPU_TORCH, "torch", cwd=folder)
    run(*install, wheel, cwd=folder)
    return User(folder)


def test_the_quickstart_and_its_page(user):
    user.copy("quickstart.py", max_steps=5)
    [page] = re.findall(r"outputs/\S+\.html", user("python", "quickstart.py"))
    assert user("barl", "inspect", "outputs/quickstart").startswith("320 rollouts.")
    assert (user.folder / page).exists()


def test_a_script_on_two_processes(user):
    user.copy("train_barl.py")
    user.copy("problems.jsonl")
    (user.folder / "ddp.yaml").write_text(user("barl", "recipes", "cpu/ddp"))
    code = "from barl_trl.synthetic.number import NUMBER_MODEL_DIR as path; print(path)"
    model = Path(user("python", "-c", code).strip())
    assert model.is_relative_to(user.folder)
    launch = ["launch", "--config_file", "ddp.yaml", "--main_process_port", "0", "train_barl.py"]
    short = ["--max_steps", "2", "--max_completion_length", "24", "--use_cpu"]
    data = ["--model", str(model), "--data", "problems.jsonl", "--output_dir", "two"]
    user("accelerate", *launch, *data, *short)
    two = user.folder / "two"
    assert (two / "checkpoint-2" / "complete.json").exists()
    assert (two / "model.safetensors").exists()
    completions = parquet.read_table(two / "completions" / "completions_00001.parquet")
    assert completions.num_rows == 2 * 8
    log = json.loads((two / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]
    assert sum("loss" in row for row in log) == 2
