"""Token efficiency: pass@k against tokens, a panel for each benchmark, a line for each model."""

from barl_trl.report import efficiency_figure

from .drawings import curves, legend, styles


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
            "num_problems": 9,
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
    figure = drawn(efficiency_figure.draw, {"rows": rows}, with_greedy=True)
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
    [axis] = drawn(efficiency_figure.draw, {"rows": rows}, with_greedy=False).axes
    assert axis.get_title(loc="left") == "gsm8k (n = 9)"
    assert axis.get_ylabel().endswith("all sampled")


def test_a_standard_error_is_as_long_as_it_says(drawn):
    [axis] = drawn(
        efficiency_figure.draw,
        {"rows": efficiency_rows("math", "barl", True)},
        with_greedy=True,
    ).axes
    [bars] = axis.containers[0][2]
    lengths = [top - bottom for (_, bottom), (_, top) in bars.get_segments()]
    assert lengths == [0, 20]  # in percent, to both sides; of one response there is none
