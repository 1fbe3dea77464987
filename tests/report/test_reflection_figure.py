"""How often reflections occur: markers for models, dashes for benchmarks."""

import pytest

from barl_trl.report import reflection_figure

from .drawings import curves, legend, styles


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
    figure = drawn(reflection_figure.draw, {"rows": rows, "settings": {"num_samples": 2}})
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
    rows = [
        {
            "benchmark": name,
            "model": "m",
            "difficulty": 0,
            "frequency": 0.5,
            "low": 0.1,
            "high": 0.9,
        }
        for name in "abcdef"
    ]
    with pytest.raises(ValueError, match="must be at most 5 in one figure, got a, b, c, d, e, f"):
        drawn(reflection_figure.draw, {"rows": rows, "settings": {"num_samples": 1}})
