"""What `python -m build` makes: the package's page on an index, and a wheel that needs no clone."""

import email
import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from markdown_it import MarkdownIt

from .paths import ROOT

pytestmark = pytest.mark.slow
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
CPU_TORCH = ["--extra-index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0"]
DEMO = """import sys
from barl_trl import cli
from barl_trl.commands.demo import inquiry
inquiry.NUM_GAMES = 20
cli.main(["demo", *sys.argv[1:]])
"""


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
    assert {f"barl_trl/{path.relative_to(package)}" for path in files} == {
        name for name in names if ".dist-info/" not in name
    }


def test_its_page_on_an_index_links_addresses_alone(wheel):
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith("/METADATA")]
        page = email.message_from_bytes(files.read(name)).get_payload()
    tokens = MarkdownIt().enable("table").parse(page)
    inline = [token for block in tokens for token in block.children or ()]
    links = [token.attrs.get("href") or token.attrs.get("src") for token in inline if token.attrs]
    assert "https://arxiv.org/abs/2505.20561" in links
    assert [link for link in links if not link.startswith("https://")] == []
    titles = [tokens[k + 1].content for k, t in enumerate(tokens) if t.type == "heading_open"]
    assert {"barl-trl", "Install", "Train", "Citation"} < set(titles)


def test_it_runs_the_quickstart_without_the_clone(wheel, tmp_path):
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python, barl = (str(tmp_path / "env" / "bin" / name) for name in ("python", "barl"))
    install = [python, *PIP, "install", "-c", ROOT / "constraints.txt"]
    run(*install, *CPU_TORCH, "torch", cwd=tmp_path)
    run(*install, wheel, cwd=tmp_path)

    shutil.copy(ROOT / "examples" / "quickstart.py", tmp_path)
    run(python, "quickstart.py", cwd=tmp_path)
    shown = run(barl, "inspect", "outputs/quickstart", cwd=tmp_path)
    assert shown.startswith("1,280 rollouts.")

    assert "qwen2.5-math-1.5b" in run(barl, "recipes", cwd=tmp_path)
    recipe = run(barl, "recipes", "show", "qwen3-0.6b-lora", cwd=tmp_path)
    assert recipe == (ROOT / "recipes" / "qwen3-0.6b-lora.yaml").read_text()
    trained = ["--model_name_or_path", "outputs/quickstart"]
    planned = run(barl, "plan", "--config", "qwen3-0.6b-lora", *trained, cwd=tmp_path)
    assert "32 prompts x 8 rollouts = 256" in planned
    assert "--consistency_beta" in run(barl, "train", "--help", cwd=tmp_path)

    few = ["--max_steps", "2", "--eval_steps", "1", "--per_device_train_batch_size", "16"]
    few += ["--per_device_eval_batch_size", "10", "--output_dir", "demo"]
    run(python, "-c", DEMO, *few, cwd=tmp_path)
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert summary["games"] == 20
    assert (tmp_path / summary["page"]).exists()
