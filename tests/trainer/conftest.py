import copy

import pytest

from ..tiny import tiny_model
from . import by_hand


@pytest.fixture(scope="session")
def _expected_weights(tokenizer):
    return by_hand.weights(tiny_model(tokenizer), tokenizer)


@pytest.fixture
def expected_weights(_expected_weights):
    """Those of the given rollouts' tokens under `model` and the default settings."""
    return copy.deepcopy(_expected_weights)
