import copy
import gc

import pytest

from ..tiny import tiny_model
from . import by_hand


@pytest.fixture(scope="session", autouse=True)
def _imports_are_no_garbage():
    """Every end of training collects garbage: a third of a second, if it searches all modules."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def _expected_weights(tokenizer):
    return by_hand.weights(tiny_model(tokenizer), tokenizer)


@pytest.fixture
def expected_weights(_expected_weights):
    """Those of the given rollouts' tokens under `model` and the default settings."""
    return copy.deepcopy(_expected_weights)
