"""Which of many hypotheses are shown."""

import numpy as np
import pytest

from barl_trl.trainer.records import likeliest


@pytest.mark.parametrize("size", [0, 1, 12])
def test_a_dozen_are_all_shown(size):
    assert likeliest(np.zeros((2, size)), 0) == [*range(size)]


def test_of_more_the_most_believed_at_any_state_and_those_that_always_are():
    belief = np.full((2, 40), 0.001)
    belief[0, 20:25], belief[1, 30:33] = 0.2, 0.3
    assert likeliest(belief) == [0, 1, *range(20, 25), *range(30, 33)]
    assert likeliest(belief, 39, None, 30) == [0, 1, *range(20, 25), *range(30, 33), 39]
