"""The wheel alone, in an environment of its own, does what the clone does."""

import json
import shutil
import subprocess
import sys
import zipfile

import pytest

from .paths import ROOT

PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
CPU_TORCH = ["--extra-index-url", "https://download.pytorch.org/whl/cpu", "--retries", "0"]


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_wheel_trains_a_model_without_the_clone(tmp_path):
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "tests", "*.egg-info", "build", "outputs")
    shutil.copytree(ROOT, source, ignore=ignored, symlinks=True)
    run(sys.executable, *PIP, "wheel", "--no-deps", "-w", tmp_path, source, cwd=tmp_path)
    (wheel,) = tmp_path.glob("barl_trl-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "barl_trl"
    files = (path for path in package.rglob("*") if path.is_file())
    shipped = {path for path in files if path.suffix != ".pyc" and path.name != "README.md"}
    assert {f"barl_trl/{path.relative_to(package)}" for path in shipped} <= names

    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python, barl = (str(tmp_path / "env" / "bin" / name) for name in ("python", "barl"))
    install = [python, *PIP, "install", "-c", ROOT / "constraints.txt"]
    run(*install, *CPU_TORCH, "torch", cwd=tmp_path)
    run(*install, wheel, cwd=tmp_path)
    assert "qwen2.5-math-1.5b" in run(barl, "recipes", cwd=tmp_path)
    run(barl, "demo", "--max_steps", "1", "--output_dir", "demo", cwd=tmp_path)
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert summary["held_out_problems"] == 400
    assert (tmp_path / summary["page"]).exists()
    assert "--consistency_beta" in run(barl, "train", "--help", cwd=tmp_path)
