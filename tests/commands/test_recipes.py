"""`barl recipes` lists what is shipped, and prints it as it is."""

from pathlib import Path

import yaml

from barl_trl.commands import cli
from barl_trl.commands.recipes import FOLDERS, file_of, names


def test_all_are_listed_with_what_they_are_for_and_printed_as_they_are(capsys):
    cli.main(["recipes"])
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    for option, folder in FOLDERS.items():
        found = {file_of(option, name) for name in names(option)}
        assert found == set(folder.rglob("*.yaml"))
        assert all(isinstance(yaml.safe_load(path.read_text()), dict) for path in found)
        for name in names(option):
            assert listed[name].endswith(".")
            cli.main(["recipes", name])
            assert capsys.readouterr().out == file_of(option, name).read_text()


def test_a_file_of_the_users_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo-search").mkdir()
    assert file_of("config", "demo-search") == FOLDERS["config"] / "demo-search.yaml"
    Path("zero2").write_text("use_cpu: true")
    assert file_of("accelerate_config", "zero2") == Path("zero2")
