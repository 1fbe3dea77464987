"""Recipes and accelerate configurations are found by name, wherever the package lies."""

from pathlib import Path

import pytest
import yaml

from barl_trl.commands.shipped import FOLDERS, file_of, names


@pytest.mark.parametrize("option", FOLDERS)
def test_every_shipped_file_has_a_name(option):
    found = {file_of(option, name) for name in names(option)}
    assert found == set(FOLDERS[option].rglob("*.yaml"))
    assert all(isinstance(yaml.safe_load(path.read_text()), dict) for path in found)


def test_a_file_of_the_users_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert file_of("config", "demo") == FOLDERS["config"] / "demo.yaml"
    Path("zero2").write_text("")
    assert file_of("accelerate_config", "zero2") == Path("zero2")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("recipes/qwen2.5-math-1.5b.yml", r"did you mean qwen2\.5-math-1\.5b\?"),
        ("nothing", "`barl recipes` lists them"),
    ],
)
def test_what_is_neither_is_refused(value, hint):
    with pytest.raises(ValueError, match=f"^--config must be .*, got {value}: {hint}"):
        file_of("config", value)
