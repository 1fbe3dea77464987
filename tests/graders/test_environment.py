"""What is said of what is installed beside the graders. In fresh processes: it is said once."""

import subprocess
import sys
from pathlib import Path

import lazy_loader

from ..paths import ROOT

SAYS = (
    "from barl_trl.graders.environment import warn_of_environment as warn\n"
    "for _ in range(3): warn()"
)
COMPARES = r"from barl_trl.graders import verify; print(bool(verify('2e', r'e\cdot 2')))"


def python(path, *arguments) -> subprocess.CompletedProcess:
    environment = {"PYTHONPATH": str(path), "PATH": ""}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True
    )


def test_a_wrong_antlr_runtime_is_said_once_before_the_first_comparison(tmp_path):
    assert python(tmp_path, "-c", SAYS).stderr == ""
    info = tmp_path / "antlr4_python3_runtime-4.9.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: antlr4-python3-runtime\nVersion: 4.9.3\n")
    first, *others = python(tmp_path, "-c", COMPARES).stderr.splitlines()
    assert "antlr4-python3-runtime must be 4.13.2 for the math_verify grader, got 4.9.3" in first
    assert "antlr4-python3-runtime must be" not in "".join(others)


def test_an_importable_gmpy2_is_said_in_one_line_and_not_used(tmp_path):
    (tmp_path / "gmpy2.py").write_text("raise SystemExit('gmpy2 was imported')")
    done = python(tmp_path, "-c", COMPARES)
    assert done.stdout == "True\n"
    assert done.stderr.startswith("gmpy2 is installed: ")
    assert done.stderr.count("\n") == 1


def test_without_an_antlr_runtime_it_is_said_how_to_get_it_and_each_thing_but_once(tmp_path):
    (tmp_path / "gmpy2.py").touch()
    (tmp_path / "lazy_loader").symlink_to(Path(lazy_loader.__file__).parent)
    without_installed = ("-S", "-c", SAYS)
    antlr, gmpy2 = python(f"{ROOT / 'src'}:{tmp_path}", *without_installed).stderr.splitlines()
    assert "must be 4.13.2 for the math_verify grader, got none" in antlr
    assert antlr.endswith("pip install 'math-verify[antlr4_13_2]'")
    assert gmpy2.startswith("gmpy2 is installed: ")
