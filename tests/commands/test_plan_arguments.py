"""The arguments of `barl plan` beside those of `barl train`."""

from dataclasses import fields

import pytest

from barl_trl.commands.plan_arguments import PlanFields
from barl_trl.commands.train_arguments import BARLScriptArguments
from barl_trl.trainer import BARLConfig


def test_no_argument_hides_one_of_training():
    names = {option.name for option in fields(PlanFields)}
    trained = {option.name for kind in (BARLScriptArguments, BARLConfig) for option in fields(kind)}
    assert names.isdisjoint(trained)


def test_help_shows_them_first(plan, capsys):
    with pytest.raises(SystemExit) as stop:
        plan("--help")
    assert not stop.value.code
    shown = capsys.readouterr().out
    listed = [line.split()[0][2:] for line in shown.splitlines() if line.startswith("  --")]
    assert listed[:3] == [option.name for option in fields(PlanFields)]
