"""Figures of analyses, read from what was drawn."""

import pytest

from barl_trl.report.figures.analysis_figures import (
    draw_comparison,
    draw_efficiency,
    draw_reflections,
    draw_values,
)

from .drawings import curves, legend, styles

# Token efficiency


def efficiency_rows(benchmark, model, with_greedy):
    place = {"benchmark": benchmark, "model": model, "with_greedy": with_greedy, "num_problems": 9}
    first = {"k": 1, "accuracy": 0.25, "standard_error": None, "tokens": 100.0}
    second = {"k": 2, "accuracy": 0.5, "standard_error": 0.1, "tokens": 200.0}
    return [place | first, place | second]


def test_efficiency_has_a_panel_for_each_benchmark_and_a_line_for_each_model(drawn):
    rows = [
        *efficiency_rows("gsm8k", "barl", True),
        *efficiency_rows("gsm8k", "grpo", True),
        *efficiency_rows("math", "barl", True),
        *efficiency_rows("math", "barl", False),
    ]
    figure = drawn(draw_efficiency, {"rows": rows}, with_greedy=True)
    left, right = figure.axes
    assert [axis.get_title(loc="left") for axis in (left, right)] == [
        "gsm8k (n = 9)",
        "math (n = 9)",
    ]
    assert curves(left) == [[(100, 25), (200, 50)]] * 2
    assert len(curves(right)) == 1
    assert len(set(styles(left))) == 2  # told apart without colours
    assert left.get_xlabel() == "mean total tokens of k responses"
    assert left.get_ylabel() == "pass@k (%), k = 1 … 2,\none of them greedy"
    assert legend(figure) == ["barl", "grpo"]


def test_efficiency_without_the_greedy_response(drawn):
    rows = efficiency_rows("math", "barl", True) + efficiency_rows("gsm8k", "barl", False)
    [axis] = drawn(draw_efficiency, {"rows": rows}, with_greedy=False).axes
    assert axis.get_title(loc="left") == "gsm8k (n = 9)"
    assert axis.get_ylabel().endswith("all sampled")


def test_a_standard_error_is_as_long_as_it_says(drawn):
    rows = efficiency_rows("math", "barl", True)
    [axis] = drawn(draw_efficiency, {"rows": rows}, with_greedy=True).axes
    [bars] = axis.containers[0][2]
    lengths = [top - bottom for (_, bottom), (_, top) in bars.get_segments()]
    assert lengths == [0, 20]  # in percent, to both sides; of one response there is none


# Values


def value_rows(model, means, *, responses="all", value="bayesian_values", num_problems=9):
    place = {"benchmark": "math", "model": model, "value": value, "responses": responses}
    place |= {"standard_error": 0.1, "num_problems": num_problems}
    steps = [*enumerate(means), (None, 7.0)]
    return [place | {"timestep": timestep, "mean": mean} for timestep, mean in steps]


def results(rows):
    return {"rows": rows, "settings": {"step": "128 tokens"}}


def test_values_by_timestep_of_all_correct_and_wrong_responses(drawn):
    rows = [
        *value_rows("barl", [1.0, 2.0]),
        *value_rows("grpo", [0.5]),
        *value_rows("barl", [1.5], responses="correct"),
        *value_rows("barl", [9.0], value="posterior_weighted_values"),
    ]
    figure = drawn(draw_values, results(rows))
    everything, correct, wrong = figure.axes
    assert curves(everything) == [[(0, 1.0), (1, 2.0)], [(0, 0.5)]]
    assert curves(correct) == [[(0, 1.5)]]
    assert curves(wrong) == []
    assert everything.get_ylabel() == "Bayesian value (reward)\nall responses"
    assert everything.get_title(loc="left") == "math (n = 9)"
    assert wrong.get_xlabel() == "timestep t (step: 128 tokens)"
    assert legend(figure) == ["barl", "grpo"]
    first, *_ = drawn(draw_values, results(rows), value="posterior_weighted_values").axes
    assert curves(first) == [[(0, 9.0)]]
    assert first.get_ylabel().startswith("posterior-weighted value")


def test_timesteps_that_few_problems_reach_are_not_drawn(drawn):
    rows = value_rows("barl", [1.0, 2.0, 3.0], num_problems=100)
    rows[1]["num_problems"], rows[2]["num_problems"] = 5, 4
    first, *_ = drawn(draw_values, results(rows)).axes
    assert curves(first) == [[(0, 1.0), (1, 2.0)]]


# The forest plot


def row(benchmark, arm, metric, **values):
    return {"benchmark": benchmark, "arm": arm, "base": "grpo", "metric": metric, **values}


def test_panels_lines_and_what_no_difference_is(drawn):
    rows = [
        row(benchmark, arm, metric, low=0.1, high=0.3, **{name: 0.2})
        for benchmark in ("gsm8k", "math")
        for arm in ("barl", "progress")
        for metric, name in (("accuracy", "difference"), ("token ratio", "ratio"))
    ]
    figure = drawn(draw_comparison, {"rows": rows})
    accuracy, ratio = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["accuracy", "token ratio"]
    assert [label.get_text() for label in accuracy.get_yticklabels()] == ["gsm8k", "math"]
    assert legend(figure) == ["barl against grpo", "progress against grpo"]
    points = [container[0].get_xdata().tolist() for container in accuracy.containers]
    assert points == [[20, 20], [20, 20]]  # in points
    assert [container[0].get_xdata()[0] for container in ratio.containers] == [0.2, 0.2]
    nothing = [axis.lines[-1].get_xdata()[0] for axis in figure.axes]
    assert nothing == [0, 1]


def test_a_difference_without_an_interval_is_a_point(drawn):
    rows = [row("gsm8k", "barl", "accuracy", difference=0.2, low=None, high=None)]
    (axis,) = drawn(draw_comparison, {"rows": rows}).axes
    (container,) = axis.containers
    assert container[0].get_xdata() == [20]
    assert not container[2][0].get_segments()[0].size


# Reflections


def test_reflections_draw_the_first_benchmark_dashed_and_the_second_solid(drawn):
    rows = [
        {
            "benchmark": benchmark,
            "model": model,
            "difficulty": difficulty,
            "num_problems": 9,
            "frequency": frequency,
            "low": frequency and frequency - 0.1,
            "high": frequency and frequency + 0.2,
        }
        for benchmark in ("gsm8k", "math")
        for model in ("base", "barl")
        for difficulty, frequency in enumerate([0.25, None, 0.75])
    ]
    figure = drawn(draw_reflections, {"rows": rows, "settings": {"num_samples": 2}})
    [axis] = figure.axes
    assert curves(axis) == [[(0, 25), (2, 75)]] * 4  # no problem has one wrong response
    assert [style for _, style in styles(axis)] == ["--", "-", "--", "-"]
    assert len({marker for marker, _ in styles(axis)}) == 2
    assert axis.get_xlabel() == "difficulty (wrong responses of 2)"
    assert axis.get_ylabel() == "problems with a reflection (%)"
    assert legend(figure) == ["gsm8k (n = 27)", "math (n = 27)", "base", "barl"]
    [bars] = axis.containers[0].lines[2]
    assert [segment[:, 1].round(6).tolist() for segment in bars.get_segments()] == [
        [15, 45],
        [65, 95],
    ]


def test_more_benchmarks_than_dashes_are_refused(drawn):
    values = {"model": "m", "difficulty": 0, "frequency": 0.5, "low": 0.1, "high": 0.9}
    rows = [values | {"benchmark": name} for name in "abcdef"]
    with pytest.raises(ValueError, match="must be at most 5 in one figure, got a, b, c, d, e, f"):
        drawn(draw_reflections, {"rows": rows, "settings": {"num_samples": 1}})
