"""The figures of `barl analyze` are drawn from its result files alone."""

import json

import matplotlib.pyplot as plt
import pytest

from barl_trl.report import efficiency_figure, reflection_figure, value_figure


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """The figure of some rows, before it is closed."""

    def draw(function, rows, settings=None, **options):
        figures = []
        monkeypatch.setattr(plt, "close", figures.append)
        path = tmp_path / "results.json"
        path.write_text(json.dumps({"settings": settings or {}, "rows": rows}))
        function(path, tmp_path / "figure.png", **options)
        monkeypatch.undo()
        plt.close(figures[0])
        assert plt.imread(tmp_path / "figure.png").shape[1] > 500
        return figures[0]

    return draw


def curves(axis):
    """(x, y) of every line with its error bars."""
    return [list(zip(*container[0].get_data(), strict=True)) for container in axis.containers]


def styles(axis):
    lines = [container[0] for container in axis.containers]
    return [(line.get_marker(), line.get_linestyle()) for line in lines]


def legend(figure):
    return [text.get_text() for box in figure.legends for text in box.get_texts()]


def efficiency_rows(benchmark, model, with_greedy):
    return [
        {
            "benchmark": benchmark,
            "model": model,
            "with_greedy": with_greedy,
            "k": k,
            "accuracy": k / 4,
            "standard_error": None if k == 1 else 0.1,
            "tokens": 100.0 * k,
        }
        for k in (1, 2)
    ]


def test_efficiency_has_a_panel_for_each_benchmark_and_a_line_for_each_model(drawn):
    rows = [
        *efficiency_rows("gsm8k", "barl", True),
        *efficiency_rows("gsm8k", "grpo", True),
        *efficiency_rows("math", "barl", True),
        *efficiency_rows("math", "barl", False),
    ]
    figure = drawn(efficiency_figure.draw, rows, with_greedy=True)
    left, right = figure.axes
    assert [axis.get_title() for axis in (left, right)] == ["gsm8k", "math"]
    assert curves(left) == [[(100, 25), (200, 50)]] * 2
    assert len(curves(right)) == 1
    assert len(set(styles(left))) == 2  # told apart without colours
    assert left.get_xlabel() == "mean total tokens of k responses"
    assert left.get_ylabel() == "pass@k (%), k = 1 … 2,\none of them greedy"
    assert legend(figure) == ["barl", "grpo"]


def test_efficiency_without_the_greedy_response(drawn):
    rows = efficiency_rows("math", "barl", True) + efficiency_rows("gsm8k", "barl", False)
    [axis] = drawn(efficiency_figure.draw, rows, with_greedy=False).axes
    assert axis.get_title() == "gsm8k"
    assert axis.get_ylabel().endswith("all sampled")


def test_reflections_draw_the_first_benchmark_dashed_and_the_second_solid(drawn):
    rows = [
        {
            "benchmark": benchmark,
            "model": model,
            "difficulty": difficulty,
            "num_problems": 9,
            "frequency": frequency,
            "standard_error": 0.1 if frequency else None,
        }
        for benchmark in ("gsm8k", "math")
        for model in ("base", "barl")
        for difficulty, frequency in enumerate([0.25, None, 0.75])
    ]
    figure = drawn(reflection_figure.draw, rows, {"num_samples": 2})
    [axis] = figure.axes
    assert curves(axis) == [[(0, 25), (2, 75)]] * 4  # no problem has one wrong response
    assert [style for _, style in styles(axis)] == ["--", "-", "--", "-"]
    assert len({marker for marker, _ in styles(axis)}) == 2
    assert axis.get_xlabel() == "difficulty (wrong responses of 2)"
    assert axis.get_ylabel() == "problems with a reflection (%)"
    assert legend(figure) == ["gsm8k", "math", "base", "barl"]


def test_more_benchmarks_than_dashes_are_refused(drawn):
    rows = [
        {"benchmark": name, "model": "m", "difficulty": 0, "frequency": 0.5, "standard_error": None}
        for name in "abcdef"
    ]
    with pytest.raises(ValueError, match="must be at most 5 in one figure, got a, b, c, d, e, f"):
        drawn(reflection_figure.draw, rows, {"num_samples": 1})


def value_rows(model, means, *, responses="all", value="bayesian_values", num_problems=9):
    return [
        {
            "benchmark": "math",
            "model": model,
            "value": value,
            "responses": responses,
            "timestep": timestep,
            "mean": mean,
            "standard_error": 0.1,
            "num_problems": num_problems,
        }
        for timestep, mean in [*enumerate(means), (None, 7.0)]
    ]


def test_values_by_timestep_of_all_correct_and_wrong_responses(drawn):
    rows = [
        *value_rows("barl", [1.0, 2.0]),
        *value_rows("grpo", [0.5]),
        *value_rows("barl", [1.5], responses="correct"),
        *value_rows("barl", [9.0], value="posterior_weighted_values"),
    ]
    figure = drawn(value_figure.draw, rows, {"step": "128 tokens"})
    everything, correct, wrong = figure.axes
    assert curves(everything) == [[(0, 1.0), (1, 2.0)], [(0, 0.5)]]
    assert curves(correct) == [[(0, 1.5)]]
    assert curves(wrong) == []
    assert everything.get_ylabel() == "Bayesian value (reward)\nall responses"
    assert wrong.get_xlabel() == "timestep t (step: 128 tokens)"
    assert legend(figure) == ["barl", "grpo"]


def test_training_values_have_a_figure_of_their_own(drawn):
    name = "posterior_weighted_values"
    rows = value_rows("barl", [1.0]) + value_rows("barl", [9.0], value=name)
    first, *_ = drawn(value_figure.draw, rows, {"step": "128 tokens"}, value=name).axes
    assert curves(first) == [[(0, 9.0)]]
    assert first.get_ylabel().startswith("posterior-weighted value")


def test_timesteps_that_few_problems_reach_are_not_drawn(drawn):
    rows = value_rows("barl", [1.0, 2.0, 3.0], num_problems=100)
    rows[1]["num_problems"], rows[2]["num_problems"] = 5, 4
    first, *_ = drawn(value_figure.draw, rows, {"step": "128 tokens"}).axes
    assert curves(first) == [[(0, 1.0), (1, 2.0)]]
