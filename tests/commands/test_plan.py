"""`barl plan` as users start it: its arguments, what the docs show, and its refusals."""

from dataclasses import fields

import pytest

from barl_trl.commands.plan import PlanFields
from barl_trl.commands.train.arguments import BARLScriptArguments
from barl_trl.trainer import BARLConfig

from ..paths import ROOT
from .qwen import ZERO2


def test_docs_show_the_plan_of_a_recipe_and_a_refusal(plan):
    page = (ROOT / "docs" / "command-line.md").read_text()
    output = plan("--accelerate_config", ZERO2, layers=28)
    assert "\n".join(line.rstrip() for line in output.splitlines()) in page
    with pytest.raises(SystemExit) as refusal:
        plan("--num_processes", "7")
    assert str(refusal.value) in " ".join(page.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--num_processes", "7"],
            "= 56, got 128: .* rollouts_per_optimizer_step = 112 or 168",
        ),
        (["--rollouts_per_optimizer_step", "100"], "rollouts_per_optimizer_step = 96 or 104"),
        (["--num_processes", "0"], "num_processes must be at least 1, got 0"),
        (
            ["--max_steps", "-1", "--num_train_rows", "1000"],
            "num_train_rows must be at least 1024, .* got 1000",
        ),
    ],
)
def test_what_does_not_divide_ends_with_an_error(plan, options, message):
    with pytest.raises(SystemExit, match=f"barl plan: .*{message}") as error:
        plan(*options)
    assert error.value.code == 2


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
