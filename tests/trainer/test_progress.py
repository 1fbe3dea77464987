"""The rows that a training run prints."""

import re

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from barl_trl.trainer.progress import ProgressRows

from .rollouts import config, trainer

LOGS = {"loss": 1e-9, "reward": 0.25, "barl/truth_mass": 0.4321}
LOGS |= {"completions/mean_length": 143.6, "completions/clipped_ratio": 0.25}


@pytest.fixture
def rows(tmp_path, capsys):
    """Feeds logs to the callback; returns the lines."""
    state = TrainerState(max_steps=200, is_world_process_zero=True)
    args, callback = TrainingArguments(str(tmp_path), use_cpu=True, bf16=False), ProgressRows()
    callback.on_train_begin(args, state, TrainerControl())

    def run(*logs, **changed):
        vars(state).update(changed)
        for log in logs:
            state.global_step += 1
            callback.on_log(args, state, TrainerControl(), logs=log)
        return capsys.readouterr().out.splitlines()

    return run


def test_a_row_for_each_logged_step(rows):
    header, row, *others = rows(*[LOGS] * 26)
    assert " ".join(header.split()) == "step reward truth mass tokens cut off left"
    assert row.split()[:-1] == ["1/200", "0.250", "0.432", "144", "25%"]
    assert re.fullmatch(r"\d+:\d\d:\d\d", row.split()[-1])
    assert others.count(header) == 1
    assert {len(line) for line in (header, row, *others)} == {len(header)}


def test_what_is_not_logged_is_a_dash(rows):
    assert rows({"loss": 0.0, "reward": 1.0, "barl/truth_mass": None})[1].split()[1:5] == [
        *("1.000", "-", "-", "-")
    ]


def test_evaluations_and_the_end_are_lines(rows):
    evaluation = {"eval_loss": 0.0, "eval_search/accuracy": 0.45, "eval_reward": None}
    lines = rows(evaluation, {"train_runtime": 3725.0}, {"mine": 1.0})
    assert [line.strip() for line in lines] == ["at 1  search/accuracy 0.45", "2 steps in 1:02:05"]


def test_other_processes_print_nothing(rows):
    assert rows(LOGS, is_world_process_zero=False) == []


@pytest.mark.parametrize("disable_tqdm", [True, False])
def test_a_trainer_with_rows_prints_nothing_else(model, tokenizer, tmp_path, capfd, disable_tqdm):
    args = config(tmp_path, max_steps=2, disable_tqdm=disable_tqdm)
    trainer(model, tokenizer, args, callbacks=[ProgressRows()]).train()
    shown = capfd.readouterr()
    assert "\r" not in shown.out + shown.err and "grad_norm" not in shown.out
    assert [line.split()[0] for line in shown.out.splitlines()] == ["step", "1/2", "2/2", "2"]


def test_a_console_that_nobody_reads_does_not_end_a_run(rows, monkeypatch):
    def broken(*texts, **options):
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", broken)
    rows(LOGS)
