"""Cosines of gradients with the true one: a line for each method, a mark for each checkpoint."""

import math

import pytest

from experiments.credit.gradients import figure as credit_figure

from ....report.drawings import curves

NAN = math.nan
CONTROL = "plain RL with steps of these sizes"


def row(model, arm, quality, bias, beyond_control=None):
    found = {"model": model, "arm": arm, "quality": quality, "bias": bias}
    return found if beyond_control is None else found | {"beyond_control": beyond_control}


ROWS = [
    row("step-0", "grpo", [0.5, 0.1], [1.0, 0.01], [0.0, 0.0]),
    row("step-0", "barl", [0.6, 0.2], [0.8, 0.02], [0.2, 0.1]),
    row("step-0", "monte carlo", [0.9, 0.05], [1.1, 0.3]),
    row("step-9", "grpo", [0.3, 0.1], [0.9, 0.01], [-0.1, 0.1]),
    row("step-9", "barl", [-0.4, 0.1], [-0.7, 0.02], [-0.5, 0.1]),
    row("step-9", "monte carlo", [0.8, 0.1], [0.7, 0.2]),
]


def draw_rows(drawn, rows):
    figure = drawn(credit_figure.draw, {"rows": rows})
    return figure, *figure.axes


def bars(axis):
    """(left end, right end) of every error bar, by its line's label."""
    return {
        lines.get_label(): [
            tuple(x for x, _ in segment) for segment in lines.lines[2][0].get_segments()
        ]
        for lines in axis.containers
    }


def controls(axis):
    return [
        pair
        for line in axis.lines
        if line.get_label() == CONTROL
        for pair in zip(*line.get_data(), strict=True)
    ]


def test_a_panel_for_one_batch_and_one_for_the_mean(drawn):
    _, quality, bias = draw_rows(drawn, ROWS)
    titles = ["quality: gradient of one batch", "bias: mean of all batches"]
    assert [axis.get_title(loc="left") for axis in (quality, bias)] == titles
    assert {axis.get_xlabel() for axis in (quality, bias)} == {"cosine with the true gradient"}
    for axis, name in ((quality, "quality"), (bias, "bias")):
        points = [x for curve in curves(axis) for x, _ in curve]
        assert points == [one[name][0] for one in ROWS]
        ends = [end for found in bars(axis).values() for end in found]
        expected = [(one[name][0] - one[name][1], one[name][0] + one[name][1]) for one in ROWS]
        for found, wanted in zip(ends, expected, strict=True):
            assert found == pytest.approx(wanted)


def test_the_control_stands_beside_the_quality_where_there_is_one(drawn):
    _, quality, bias = draw_rows(drawn, ROWS)
    expected = [(0.5, -0.2), (0.4, 0.8), (0.4, 0.2), (0.1, 1.2)]
    for found, wanted in zip(controls(quality), expected, strict=True):
        assert found == pytest.approx(wanted)
    assert controls(bias) == []


def test_what_noise_hides_is_not_drawn(drawn):
    rows = [
        row("step-0", "grpo", [0.5, 0.1], [NAN, NAN], [NAN, NAN]),
        row("step-0", "barl", [0.6, NAN], [0.8, NAN], [0.1, 0.1]),
    ]
    _, quality, bias = draw_rows(drawn, rows)
    assert curves(quality) == [[(0.5, 0.0)]]
    assert curves(bias) == [[]]
    assert math.isfinite(bias.get_xlim()[1])
