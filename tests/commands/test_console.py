"""What commands print and check alike."""

import argparse

import pytest

from barl_trl.commands.shell.console import (
    at_least_one,
    mistakes_in_one_line,
    print_note,
    print_table,
    progress_bar,
)


def test_a_table_has_a_line_for_each_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    print_table("Title", [{"arm": "barl", "k": "1"}, {"arm": "grpo", "k": "200"}], align="right")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "Title"
    assert [line for line in lines if line.startswith("│")] == ["│ barl │   1 │", "│ grpo │ 200 │"]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", ""])
def test_a_count_is_a_whole_number_of_at_least_1(text):
    assert at_least_one("12") == 12
    with pytest.raises(argparse.ArgumentTypeError, match=f"at least 1, got '{text}'"):
        at_least_one(text)


@pytest.mark.parametrize("error", [ValueError, OSError, ImportError])
def test_a_users_mistake_ends_in_one_line(error):
    with pytest.raises(SystemExit) as stop, mistakes_in_one_line("barl plan"):
        raise error("step_size must be at least 1, got 0.")
    assert stop.value.code == 2
    assert str(stop.value) == "barl plan: step_size must be at least 1, got 0."


def test_a_mistake_of_ours_keeps_its_traceback():
    with pytest.raises(KeyError), mistakes_in_one_line("barl plan"):
        raise KeyError("bug")


def test_texts_are_no_markup(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = "[/INST] [bold]x[/bold] :smile:"
    print_note(text)
    print_table(text, [{text: text}])
    with progress_bar() as progress:
        progress.add_task(text, total=1)
    assert capsys.readouterr().out.count(text) == 5
