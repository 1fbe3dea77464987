"""`barl recipes` lists what is shipped, and prints it as it is."""

import pytest

from barl_trl import cli
from barl_trl.commands.shipped import FOLDERS, file_of, names


def test_all_are_listed_with_what_they_are_for(capsys):
    cli.main(["recipes"])
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    for option in FOLDERS:
        for name in names(option):
            assert listed[name].endswith(".")


@pytest.mark.parametrize(("option", "name"), [("config", "demo"), ("accelerate_config", "zero2")])
def test_a_recipe_is_shown_as_it_is(option, name, capsys):
    cli.main(["recipes", "show", name])
    assert capsys.readouterr().out == file_of(option, name).read_text()


def test_what_is_not_listed_cannot_be_shown(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["recipes", "show", "x"])
    assert stop.value.code == 2
    assert "NAME must be one that `barl recipes` lists, got x." in capsys.readouterr().err
