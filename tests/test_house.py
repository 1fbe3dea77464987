"""The rules of the house: the map, the folders, the contract and the tests tell the same story."""

import ast
import importlib
import re
import tomllib

import pytest
import yaml

import barl_trl

from .paths import ROOT

SOURCE = ROOT / "src" / "barl_trl"
DUNDER = {"__init__", "__main__"}  # __main__ only starts cli
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.stem not in DUNDER)
TREES = {
    path: ast.parse(path.read_text())
    for folder in (SOURCE, ROOT / "experiments")
    for path in folder.rglob("*.py")
}


def named(path):
    return str(path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT))


def test_map_folders_and_contract_name_the_same_rooms():
    lines = barl_trl.__doc__.split("\n\n")[1].splitlines()
    rooms = [name for line in lines for name in re.split(r"\s{2,}", line)[0].split(", ")]
    there = {path.stem for path in SOURCE.glob("*.py")}
    there |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(rooms) == there - DUNDER
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    floors = contracts["contracts"][0]["layers"]
    drawn = [room.removeprefix("barl_trl.") for floor in floors for room in floor.split(" | ")]
    assert drawn == rooms


ROOMY = {".": 15, "credit": 12, "graders": 11, "trainer": 11}
"""Of more: the map, the estimators, the rules of answers, the trainer."""


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=named)
def test_a_room_has_at_most_ten_rooms(folder):
    files = {path for path in folder.glob("*.py") if path.stem not in DUNDER}
    rooms = files | {path.parent for path in folder.glob("*/__init__.py")}
    assert len(rooms) <= ROOMY.get(named(folder), 10)


@pytest.mark.parametrize(
    "name",
    [
        "posterior",
        "steps",
        "rewards",
        "data",
        "graders",
        "plausibility",
        "trainer",
        "synthetic",
        "evaluation",
    ],
)
def test_public_paths_import(name):
    module = importlib.import_module(f"barl_trl.{name}")
    assert all(hasattr(module, public) for public in getattr(module, "__all__", []))


def test_public_names_import():
    assert set(barl_trl.__all__) > {"BARLConfig", "BARLTrainer", "answer_log_likelihoods"}
    assert all(getattr(barl_trl, name) is not None for name in barl_trl.__all__)


def ends(message):
    """The last characters of a literal, formatted or joined text; None for other values."""
    if isinstance(message, ast.JoinedStr):
        return ends(message.values[-1])
    if isinstance(message, ast.Constant) and isinstance(message.value, str):
        return message.value
    return ends(message.right) if isinstance(message, ast.BinOp) else None


@pytest.mark.parametrize("path", TREES, ids=named)
def test_errors_end_with_a_period(path):
    messages = [
        (node.lineno, ends(node.exc.args[0]))
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args
        if ast.unparse(node.exc.func) != "PushError"  # it ends with a command to be copied
    ]
    texts = [(line, text) for line, text in messages if text is not None]
    assert [found for found in texts if not found[1].endswith((".", "?", ":\n"))] == []


def test_what_is_printed_of_a_folder_is_escaped():
    """Its name may hold commands to a terminal."""
    names = re.compile(r"\b(output_dir|output|folders?|paths?|pages?|argv)\b")
    calls = [
        ast.unparse(node)
        for path in TREES
        if path.is_relative_to(SOURCE / "commands")
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("print", "stderr.write"))
    ]
    printed = [call for call in calls if names.search(call)]
    assert len(printed) > 9
    assert [call for call in printed if "printable" not in call] == []


@pytest.mark.parametrize("path", TREES, ids=named)
def test_types_stand_in_the_annotations_alone(path):
    """Google's `name (type): text` would say them twice."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            assert not re.search(
                r"^\s+\w+ \([\w\[\], .|`]+\): ", ast.get_docstring(node) or "", re.M
            )


def test_the_public_workflow_makes_what_ci_makes():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    made = set(workflow["jobs"]["part"]["strategy"]["matrix"]["target"])
    made |= {step["run"].split()[1] for step in workflow["jobs"]["browser"]["steps"][1:]}
    makefile = (ROOT / "Makefile").read_text()
    [parts] = re.findall(r"^test-all: ([\w -]+)  ##", makefile, re.MULTILINE)
    lines = re.findall(r"^make (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    ci = {word for line in lines for word in line.split() if not word.startswith("--")}
    assert ci >= {*parts.split()}
    assert made == ci - {"setup", "environments"}  # every target sets up


def test_the_image_is_built_from_files_that_its_build_is_given():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)
