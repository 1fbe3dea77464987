"""What the experiments cost, by hand."""

import pytest

from barl_trl import cli
from barl_trl.commands.reproduce.paper.cost import FLOPS, gpu_hours
from barl_trl.commands.reproduce.paper.scales import paper_scale


def test_gpu_hours_by_hand():
    """1.5B, GRPO: 110 rollout batches of 5120 rollouts, 512 + 1024 tokens; nothing is scored, but
    read by a reference model. 9881 problems: eleven times during training, then seven times.
    """
    scale = paper_scale()
    model = scale.models[0]
    hours = 1.5e9 / FLOPS / 3600
    training, evaluation = gpu_hours(scale, model, "grpo")
    assert training == pytest.approx(110 * 5120 * (2 * 1024 + 10 * (512 + 1024)) * hours)
    assert evaluation == pytest.approx(2 * 9881 * (11 * 1024 + 7 * 2048) * hours)
    assert gpu_hours(scale, model, "barl")[0] > gpu_hours(scale, model, "progress")[0]
    training, evaluation = gpu_hours(scale, model, "grpo_length_controlled")
    assert training == pytest.approx(110 * 5120 * (2 * 32 + 10 * (512 + 32)) * hours)
    assert evaluation == pytest.approx(2 * 9881 * (11 * 32 + 7 * 2048) * hours)
    assert gpu_hours(scale, model, None) == (0, pytest.approx(2 * 9881 * 7 * 2048 * hours))


def test_the_plan_is_printed_first(capsys):
    cli.main(["reproduce", "paper", "--scale", "paper", "--plan", "--seeds", "1"])
    printed = capsys.readouterr().out
    assert printed.index("GPU hours") < printed.index("barl_trl.cli train")
    assert printed.count("barl_trl.cli evaluate") == 2 * (10 + 3)
