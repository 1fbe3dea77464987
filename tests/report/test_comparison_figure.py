"""The forest plot: a panel for each metric, a line for each benchmark, one for no difference."""

from barl_trl.report import comparison_figure

from .drawings import legend


def row(benchmark, arm, metric, **values):
    return {"benchmark": benchmark, "arm": arm, "base": "grpo", "metric": metric, **values}


def test_panels_lines_and_what_no_difference_is(drawn):
    rows = [
        row(benchmark, arm, metric, low=0.1, high=0.3, **{name: 0.2})
        for benchmark in ("gsm8k", "math")
        for arm in ("barl", "progress")
        for metric, name in (("accuracy", "difference"), ("token ratio", "ratio"))
    ]
    figure = drawn(comparison_figure.draw, {"rows": rows})
    accuracy, ratio = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["accuracy", "token ratio"]
    assert [label.get_text() for label in accuracy.get_yticklabels()] == ["gsm8k", "math"]
    assert legend(figure) == ["barl against grpo", "progress against grpo"]
    points = [container[0].get_xdata().tolist() for container in accuracy.containers]
    assert points == [[20, 20], [20, 20]]  # in points
    assert [container[0].get_xdata()[0] for container in ratio.containers] == [0.2, 0.2]
    nothing = [axis.lines[-1].get_xdata()[0] for axis in figure.axes]
    assert nothing == [0, 1]
