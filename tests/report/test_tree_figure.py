"""The picture of the tree is drawn from the results file alone."""

import pytest

from barl_trl.report.figures import tree_figure

DEPTH_2 = {"leaves": [1, 2], "children": [[1, 2], [], []]}
FIRST = {"path": [0, 1], "steps": [1, 1], "belief": [0.5, 0.5], "reward": 0}
SECOND = {"path": [1, 0, 2], "steps": [2, 3], "belief": [0.0, 1.0], "reward": 1}
EXAMPLE = {**DEPTH_2, "back": "root", "tries": [FIRST, SECOND]}
TREES = [
    {
        "depth": depth,
        "back": back,
        "adaptive": 1.0,
        "stochastic_markovian": 0.7,
        "single_pass_markovian": 1 / 2 ** (depth - 1),
    }
    for depth in (2, 3)
    for back in ("root", "parent")
]


@pytest.fixture
def axes(drawn):
    """The axes of some examples' figure."""

    def draw(*examples):
        return drawn(tree_figure.draw, {"examples": examples, "trees": TREES}).axes

    return draw


def texts(axis):
    return [text.get_text() for text in axis.texts]


def test_a_panel_for_each_leaf_that_is_tried_with_its_belief(axes):
    first, second, _ = axes(EXAMPLE)
    assert first.get_title() == "step 1: reward 0"
    assert second.get_title() == "steps 2–3: reward 1"
    assert texts(first) == ["$s_{0}$", "$s_{1}$", "1/2", "$s_{2}$", "1/2"]
    assert texts(second) == ["$s_{0}$", "$s_{1}$", "0", "$s_{2}$", "1"]


def test_excluded_leaves_are_crossed_out_and_beliefs_shaded(axes):
    first, second, _ = axes(EXAMPLE)
    assert [line.get_marker() for line in first.lines].count("x") == 0
    assert [line.get_marker() for line in second.lines].count("x") == 1
    shades = [line.get_markerfacecolor() for line in second.lines if line.get_marker() == "o"]
    assert shades == ["1.0", "1.0", "0.25"]  # the root, the excluded leaf, the certain one


def test_way_to_the_next_leaf_is_drawn_its_way_back_dashed(axes):
    first, second, _ = axes(EXAMPLE)
    assert [arrow.get_linestyle() for arrow in first.patches] == ["-"]
    back, down = second.patches
    assert back.get_linestyle() != "-" and down.get_linestyle() == "-"


def test_rows_of_different_length_and_returns_of_every_depth(axes):
    *_, chart = axes(EXAMPLE, EXAMPLE | {"back": "parent", "tries": [FIRST]})
    assert [line.get_xdata().tolist() for line in chart.lines] == [[2, 3]] * 4
    assert chart.lines[-1].get_ydata().tolist() == [0.5, 0.25]
