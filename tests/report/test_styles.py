"""Lines that can be told apart without colours, points and bars only where there are numbers."""

import matplotlib.pyplot as plt
import pytest

from barl_trl.report.figures.styles import error_line, finish, line_style, panels, plain, save

from .drawings import curves, legend


@pytest.fixture
def axis():
    figure, axis = plt.subplots()
    yield axis
    plt.close(figure)


def test_forty_lines_differ_in_marker_dashes_or_filling():
    looks = set()
    for n in range(40):
        style = line_style(n)
        is_hollow = style["markerfacecolor"] == "white"
        looks.add((style["marker"], str(style["linestyle"]), is_hollow))
    assert len(looks) == 40


def test_a_mean_that_is_none_has_no_point_and_an_error_that_is_none_no_bar(axis):
    error_line(axis, [0, 1, 2], [0.5, None, 1.0], [0.25, 0.1, None])
    assert curves(axis) == [[(0, 0.5), (2, 1.0)]]
    [bars] = axis.containers[0][2]
    assert [segment[:, 1].tolist() for segment in bars.get_segments()] == [[0.25, 0.75], [1.0, 1.0]]


def test_a_line_without_any_mean_is_not_drawn(axis):
    error_line(axis, [0, 1], [None, None], [None, 0.1])
    assert axis.containers == []


def test_the_legend_has_each_name_once_in_the_order_of_the_panels(tmp_path):
    figure, axes = panels(2, rows=2)
    assert axes.shape == (2, 2)
    for axis, names in zip(axes.flat, ["b", "ab", "", "ca"], strict=True):
        for name in names:
            error_line(axis, [0], [1.0], [0.1], label=name, **line_style(0))
    finish(figure, tmp_path / "figure.png", names=3)
    assert legend(figure) == ["b", "a", "c"]
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_saved_is_let_go_of(tmp_path):
    figure, _ = panels(1)
    assert plt.fignum_exists(figure.number)
    save(figure, tmp_path / "figure.png", dpi=10)
    assert not plt.fignum_exists(figure.number)


@pytest.mark.parametrize("name", ["$x^$", "_hidden", "a$b", r"\\$x^$"])
def test_a_name_is_neither_a_formula_nor_hidden(tmp_path, name):
    figure, [[axis]] = panels(1)
    error_line(axis, [0], [1.0], [0.1], label=plain(name), **line_style(0))
    axis.set_title(plain(name))
    finish(figure, tmp_path / "figure.png", names=1)  # a formula with a mistake would fail here
    assert legend(figure) == [plain(name)]
