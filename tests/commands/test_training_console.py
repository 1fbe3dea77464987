"""What `barl train` prints."""

import re

import pytest
from barl_trl.commands.train.training_console import (
    ROWS_PER_HEADER,
    _evaluation_in_words,
    _TrainingRows,
)
from transformers import TrainerControl, TrainerState, TrainingArguments

from barl_trl import cli

LOGS = {
    "loss": 1e-9,
    "reward": 0.25,
    "barl/truth_mass": 0.4321,
    "completions/mean_length": 143.6,
    "completions/clipped_ratio": 0.25,
    "barl/no_answer": 0.5,
    "grad_norm": 0.1234,
    "step_time": 12.34,
}


@pytest.fixture
def rows(tmp_path, capsys):
    """Feeds logs to the callback; returns the lines."""
    state = TrainerState(max_steps=200, is_world_process_zero=True)
    args = TrainingArguments(str(tmp_path), use_cpu=True, bf16=False)
    args.log_completions = False
    callback = _TrainingRows()
    callback.on_train_begin(args, state, TrainerControl())

    def run(*logs, **changed):
        vars(state).update(changed)
        for log in logs:
            state.global_step += 1
            callback.on_log(args, state, TrainerControl(), logs=log)
        return capsys.readouterr().out.splitlines()

    return run


def test_a_row_for_each_logged_step_fits_80_columns(rows):
    lines = rows(*[LOGS] * (ROWS_PER_HEADER + 1))
    header, row, *_ = lines
    names = "step reward truth mass tokens cut off no answer grad norm s/step left"
    assert " ".join(header.split()) == names
    assert row.split()[:-1] == ["1/200", "0.250", "0.432", "144", "25%", "50%", "0.12", "12.3"]
    assert re.fullmatch(r"\d+:\d\d:\d\d", row.split()[-1])
    assert lines.count(header) == 2
    assert max(map(len, lines)) < 80


def test_what_is_not_logged_is_a_dash(rows):
    assert rows({"loss": 0.0, "reward": 1.0})[1].split()[1:8] == ["1.000", *"------"]


def test_evaluations_and_the_end_are_lines(rows):
    evaluation = {"eval_loss": 0.0, "eval_search/accuracy": 0.45, "eval_search/mean_tokens": 31.0}
    lines = rows(evaluation, {"train_runtime": 3725.0}, {"mine": 1.0})
    assert lines == [
        "evaluation at step 1: search/accuracy 0.45, search/mean_tokens 31",
        "2 steps in 1:02:05",
    ]


def test_many_benchmarks_are_wrapped():
    logs = {f"eval_{name * 9}/accuracy": 0.5 for name in "abcdefgh"}
    assert max(map(len, _evaluation_in_words(logs, 5).splitlines())) < 80


def test_other_processes_print_nothing(rows):
    assert rows(LOGS, is_world_process_zero=False) == []


def test_a_log_file_gets_rows_and_no_carriage_return(recipe, capfd, caplog):
    cli.main(["train", "--config", recipe(disable_tqdm=False)])
    shown = capfd.readouterr()
    assert "\r" not in shown.out + shown.err
    assert "'grad_norm'" not in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()[:3]] == ["step", "1/2", "2/2"]
    assert caplog.text.count("loss stays near 0 by construction") == 1
