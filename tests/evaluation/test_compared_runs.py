"""Arms as arrays of seeds by problems by responses."""

import numpy as np
import pytest

from barl_trl.evaluation.statistics.compared_runs import arms_of

from .files import problems


def test_arrays_by_hand():
    runs = {
        "ours": [{"math": problems([[1, 0], [1, 1]])}, {"math": problems([[0, 0, 0], [1, 0, 0]])}],
        "theirs": [{"math": problems([[0, 1], [0, 0]], tokens=30)}],
    }
    found = arms_of("math", runs)
    # two responses of each problem at most: so many have all runs
    expected = [[[0.5, 1], [1, 1]], [[0, 0], [1 / 3, 2 / 3]]]
    np.testing.assert_allclose(found["ours"].passed, expected)
    np.testing.assert_allclose(found["theirs"].tokens, [[[30, 60], [30, 60]]])


def test_an_arm_does_not_mix_ways_of_drawing():
    hot, cold = ({"temperature": value} for value in (1.0, 0.6))

    def run(drawing):
        return {"math": problems([[1, 0]], drawing=drawing)}

    arms_of("math", {"hot": [run(hot), run(None)], "cold": [run(cold)]})
    with pytest.raises(ValueError, match=r"drawn tokens alike, got .* in both: name them"):
        arms_of("math", {"both": [run(hot), run(cold)]})


@pytest.mark.parametrize("other", [[[1]], [[1], [0], [1]]], ids=["fewer", "more"])
def test_runs_on_other_problems_are_refused(other):
    runs = {"a": [{"math": problems([[1], [0]])}], "b": [{"math": problems(other)}]}
    with pytest.raises(ValueError, match="all runs must have answered the same problems, got"):
        arms_of("math", runs)
    runs["b"] = [{"math": problems([[1], [0]], problem="2 + 2?")}]
    with pytest.raises(ValueError, match="or others, in the first: evaluate them"):
        arms_of("math", runs)
    runs["b"] = [{"gsm8k": problems([[1], [0]])}]
    with pytest.raises(ValueError, match="got 0 of math in a run of b"):
        arms_of("math", runs)
