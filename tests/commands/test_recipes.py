"""`barl recipes` lists what is shipped, and prints it as it is."""

from pathlib import Path

import pytest
import yaml

from barl_trl import cli
from barl_trl.commands.recipes import FOLDERS, _names, file_of


def test_all_are_listed_with_what_they_are_for(capsys):
    cli.main(["recipes"])
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    for option in FOLDERS:
        for name in _names(option):
            assert listed[name].endswith(".")


@pytest.mark.parametrize(("option", "name"), [("config", "demo-search"), ("accelerate_config", "zero2")])
def test_a_recipe_is_shown_as_it_is(option, name, capsys):
    cli.main(["recipes", "show", name])
    assert capsys.readouterr().out == file_of(option, name).read_text()


def test_what_is_not_listed_cannot_be_shown(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["recipes", "show", "x"])
    assert stop.value.code == 2
    assert "NAME must be one that `barl recipes` lists, got x." in capsys.readouterr().err


@pytest.mark.parametrize("option", FOLDERS)
def test_every_shipped_file_has_a_name(option):
    found = {file_of(option, name) for name in _names(option)}
    assert found == set(FOLDERS[option].rglob("*.yaml"))
    assert all(isinstance(yaml.safe_load(path.read_text()), dict) for path in found)


def test_a_file_of_the_users_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo-search").mkdir()
    assert file_of("config", "demo-search") == FOLDERS["config"] / "demo-search.yaml"
    Path("zero2").write_text("use_cpu: true")
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


@pytest.mark.parametrize("text", ["", "- a", "a: b: c", "a: \0", "[" * 20_000])
def test_an_accelerate_configuration_that_is_none_is_refused(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{path} must "):
        file_of("accelerate_config", str(path))
