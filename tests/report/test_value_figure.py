"""Values by timestep: of all responses, of the correct and of the wrong ones."""

from barl_trl.report import value_figure

from .drawings import curves, legend


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


def results(rows):
    return {"rows": rows, "settings": {"step": "128 tokens"}}


def test_values_by_timestep_of_all_correct_and_wrong_responses(drawn):
    rows = [
        *value_rows("barl", [1.0, 2.0]),
        *value_rows("grpo", [0.5]),
        *value_rows("barl", [1.5], responses="correct"),
        *value_rows("barl", [9.0], value="posterior_weighted_values"),
    ]
    figure = drawn(value_figure.draw, results(rows))
    everything, correct, wrong = figure.axes
    assert curves(everything) == [[(0, 1.0), (1, 2.0)], [(0, 0.5)]]
    assert curves(correct) == [[(0, 1.5)]]
    assert curves(wrong) == []
    assert everything.get_ylabel() == "Bayesian value (reward)\nall responses"
    assert everything.get_title(loc="left") == "math (n = 9)"
    assert wrong.get_xlabel() == "timestep t (step: 128 tokens)"
    assert legend(figure) == ["barl", "grpo"]


def test_training_values_have_a_figure_of_their_own(drawn):
    name = "posterior_weighted_values"
    rows = value_rows("barl", [1.0]) + value_rows("barl", [9.0], value=name)
    first, *_ = drawn(value_figure.draw, results(rows), value=name).axes
    assert curves(first) == [[(0, 9.0)]]
    assert first.get_ylabel().startswith("posterior-weighted value")


def test_timesteps_that_few_problems_reach_are_not_drawn(drawn):
    rows = value_rows("barl", [1.0, 2.0, 3.0], num_problems=100)
    rows[1]["num_problems"], rows[2]["num_problems"] = 5, 4
    first, *_ = drawn(value_figure.draw, results(rows)).axes
    assert curves(first) == [[(0, 1.0), (1, 2.0)]]
