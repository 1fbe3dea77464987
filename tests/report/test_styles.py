"""Lines that can be told apart without colours, and names that are drawn as they are."""

import matplotlib.pyplot as plt
import pytest

from barl_trl.report.figures.styles import finish, line_style, panels, plain

from .drawings import legend


def test_forty_lines_differ_in_marker_dashes_or_filling():
    looks = set()
    for n in range(40):
        style = line_style(n)
        is_hollow = style["markerfacecolor"] == "white"
        looks.add((style["marker"], str(style["linestyle"]), is_hollow))
    assert len(looks) == 40


def test_the_legend_has_each_name_once_in_the_order_of_the_panels_and_the_figure_is_let_go(
    tmp_path,
):
    figure, axes = panels(2, rows=2)
    assert axes.shape == (2, 2)
    for axis, names in zip(axes.flat, ["b", "ab", "", "ca"], strict=True):
        for name in names:
            axis.errorbar([0], [1.0], yerr=[0.1], label=name, **line_style(0))
    finish(figure, tmp_path / "figure.png", "Title")
    assert (legend(figure), figure.get_suptitle()) == (["b", "a", "c"], "Title")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert not plt.fignum_exists(figure.number)


@pytest.mark.parametrize("name", ["$x^$", "_hidden", "a$b", r"\\$x^$"])
def test_a_name_is_neither_a_formula_nor_hidden(tmp_path, name):
    figure, [[axis]] = panels(1)
    axis.plot([0], [1.0], label=plain(name))
    axis.set_title(plain(name))
    finish(figure, tmp_path / "figure.png")  # a formula with a mistake would fail here
    assert legend(figure) == [plain(name)]
