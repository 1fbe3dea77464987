"""The completions on the console, at 80 columns."""

import math

import pandas as pd
import pytest
from barl_trl.trainer.logging.completions_print import print_completions, shortened, sparkline

from .rollouts import config, trainer

PROMPT = [{"role": "user", "content": "[/INST] 1+1? :smile: \x1b[31m" + "x" * 300}]
ROW = {"answer": "[bold]2", "belief": 0.93, "hypotheses": ["2", "3"], "step_values": [0.0, 1.0]}


@pytest.fixture
def show(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(rows, number=None, **rewards):
        completions = [[{"role": "assistant", "content": f"It is {n}."}] for n in range(len(rows))]
        rewards = rewards or {"accuracy_reward": [1.0] * len(rows)}
        prompts = [PROMPT] * len(rows)
        print_completions(prompts, completions, rewards, rows, step=7, number=number)
        return capsys.readouterr().out

    return run


def test_answer_belief_and_values_of_a_completion(show):
    lines = show([ROW, ROW | {"answer": None, "belief": 0.0, "step_values": [0.5]}]).splitlines()
    assert lines[0] == "completions at training step 7  values from 0.00 to 1.00"
    assert max(map(len, lines)) <= 80
    assert "  the truth: 2; other answers: 3" in lines
    found = [" ".join(line.split()) for line in lines if "belief" in line]
    assert found == [
        "[bold]2 reward 1.00 belief in the truth 0.93 ▁█",
        "no answer reward 1.00 belief in the truth 0.00 ▅",
    ]
    assert "      It is 1." in lines


def test_problems_with_one_prompt_have_their_own_hypotheses(show):
    lines = show([ROW, ROW, ROW | {"hypotheses": ["4", "3"]}]).splitlines()
    found = [line.strip() for line in lines if "truth:" in line or "It is" in line]
    first, second = (f"the truth: {truth}; other answers: 3" for truth in (2, 4))
    assert found == [first, "It is 0.", "It is 1.", second, "It is 2."]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (ROW | {"has_truth": False}, "  no truth is known; answers: 2, 3"),
        (ROW | {"has_truth": True, "others": 9}, "  the truth: 2; other answers: 3 and 9 others"),
    ],
)
def test_hypotheses_without_a_truth_and_of_many(show, row, line):
    assert line in show([row]).splitlines()


def test_an_agents_turns_have_lines_with_their_values_and_tools(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    call = {"type": "function", "function": {"name": "at_least", "arguments": {"x": 5}}}
    calling = {"role": "assistant", "content": "Hm.", "tool_calls": [call]}
    messages = [
        calling,
        {"role": "tool", "name": "at_least", "content": "[red]no\n"},
        {"role": "assistant", "content": "It is 2."},
        {"role": "tool", "content": "Wrong."},
    ]
    completions = [messages, [{"role": "assistant", "tool_calls": [call]}], messages[2:3]]
    rows = [ROW | {"step_values": values} for values in ([-0.25, 1.0], [0.5, 0.5], [0.0])]
    rewards = {"accuracy_reward": [1.0] * 3}
    print_completions([PROMPT] * 3, completions, rewards, rows, step=7, number=None)
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.startswith(" " * 6)] == [
        'turn 1 -0.25: Hm. at_least {"x": 5}',
        "at_least: [red]no",
        "turn 2 +1.00: It is 2.",
        "observation: Wrong.",
        'turn 1: at_least {"x": 5}',  # its values are not those of turns
        "It is 2.",
    ]


def test_texts_are_no_markup_and_prompts_are_shown_once(show):
    shown = show([ROW] * 3)
    assert shown.count("[/INST] 1+1? :smile: \N{REPLACEMENT CHARACTER}[31mxxx") == 1
    assert "\x1b" not in shown


def test_the_number_is_kept_to_and_nothing_is_printed_of_nothing(show):
    assert show([ROW] * 4, number=2).count("belief in the truth") == 2
    assert show([]) == ""


def test_rows_that_were_not_scored_and_rewards_that_are_missing(show):
    shown = show([{}], first=[math.nan], second=[0.5])
    assert "no answer" in shown and "first   nan  second  0.50" in shown
    assert "belief" not in shown and "values" not in shown


def test_bars_are_means_of_neighbours():
    assert sparkline([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"
    assert sparkline([0.0] * 50 + [1.0] * 50, 0.0, 1.0) == "▁" * 8 + "█" * 8
    assert sparkline([3.0, 3.0], 3.0, 3.0) == "▁▁"
    assert sparkline([math.nan, 1.0], 0.0, 1.0) == "?█"
    assert sparkline([], 0.0, 0.0) == ""


def test_the_middle_of_a_long_text_is_left_out():
    assert shortened("abcdefghij", 7) == "ab … ij"
    assert len(shortened("x" * 99, 20)) == 20


def test_the_trainer_prints_new_completions_once_and_logs_what_it_did(
    model, tokenizer, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    settings = config(tmp_path, log_completions=True, num_completions_to_print=2)
    trainer(model, tokenizer, settings).train()
    shown = capsys.readouterr().out
    assert (
        shown.count("completions at training step 1") == 1
    )  # though the end of training is logged, too
    assert shown.count("belief in the truth") == 2
    assert "┃" not in shown  # TRL's table
    (path,) = (tmp_path / "completions").glob("*.parquet")
    assert "belief" not in pd.read_parquet(path).columns  # trackers get what they got
