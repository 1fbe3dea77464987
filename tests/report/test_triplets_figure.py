"""The didactic example: accuracy along training, mean and deviation over seeds."""

import numpy as np
import pytest

from barl_trl.report.figures import triplets_figure

from .drawings import legend

ACCURACIES = {  # arm -> seed -> accuracy at iterations 0 and 10
    "rl": {0: [0.0, 0.4], 1: [0.2, 1.0]},
    "barl": {0: [0.1, 1.0], 1: [0.3, 1.0]},
}


@pytest.fixture
def panels(drawn):
    def draw(accuracies=ACCURACIES):
        records = [
            {
                "arm": arm,
                "seed": seed,
                "iteration": 10 * n,
                "train_accuracy": accuracy,
                "unseen_accuracy": accuracy / 2,
            }
            for arm, seeds in accuracies.items()
            for seed, curve in seeds.items()
            for n, accuracy in reversed([*enumerate(curve)])  # whatever the order of the records
        ]
        arms = {arm: {"title": arm.upper()} for arm in accuracies}
        references = {
            "uniform policy, a repeat": 0.25,
            "best Markovian policy, 3 hypotheses": 0.5,
            "another": 0.75,
        }
        results = {"records": records, "arms": arms, "references": references}
        figure = drawn(triplets_figure.draw, results | {"settings": {"batch_size": 32}})
        return figure, *figure.axes

    return draw


def test_a_panel_for_training_prompts_and_one_for_the_unseen_prompt(panels):
    figure, seen, unseen = panels()
    assert [seen.get_title(), unseen.get_title()] == ["training prompts 0 and 1", "unseen prompt 2"]
    assert seen.get_xlabel() == "iteration (32 episodes each)"
    assert seen.get_ylabel() == "accuracy (mean ± std, 2 seeds)"
    assert legend(figure) == ["RL", "BARL"]


def test_lines_are_means_over_seeds_and_bands_their_deviations(panels):
    _, *axes = panels()
    for axis, scale in zip(axes, (1, 0.5), strict=True):
        lines = {line.get_label(): line for line in axis.lines}
        for arm, band in zip(ACCURACIES, axis.collections, strict=True):
            curves = scale * np.array([*ACCURACIES[arm].values()])
            line, half = lines[arm.upper()], abs(curves[0] - curves[1]) / 2
            assert line.get_xdata().tolist() == [0, 10]
            np.testing.assert_allclose(line.get_ydata(), curves.mean(axis=0))
            for x, mean, deviation in zip([0, 10], curves.mean(axis=0), half, strict=True):
                edges = [y for place, y in band.get_paths()[0].vertices if place == x]
                assert (min(edges), max(edges)) == pytest.approx(
                    (mean - deviation, min(mean + deviation, 1))
                )


def test_what_other_policies_reach_stands_beside_them(panels):
    for axis in panels()[1:]:
        assert [text.get_text() for text in axis.texts] == [
            "uniform policy 0.25",
            "best Markovian policy 0.50",
        ]


def test_lines_can_be_told_apart_without_colours_and_one_seed_is_no_plural(panels):
    _, seen, _ = panels({arm: {0: [0.0, 1.0]} for arm in "abcd"})
    dashes = [line.get_linestyle() for line in seen.lines if line.get_label() in "ABCD"]
    assert len(dashes) == len(set(dashes)) == 4
    assert seen.get_ylabel() == "accuracy (mean ± std, 1 seed)"
