import copy

import pytest

from ..tiny import tiny_model
from . import by_hand
from .rollouts import apart, config, trainer


@pytest.fixture
def make(model, tokenizer, tmp_path):
    """Makes a trainer of the given rollouts, of its configuration's fields and its arguments."""

    def make(folder=tmp_path, model=model, **given):
        fields, arguments = apart(given)
        return trainer(copy.deepcopy(model), tokenizer, config(folder, **fields), **arguments)

    return make


@pytest.fixture(scope="session")
def _expected_weights(tokenizer):
    return by_hand.weights(tiny_model(tokenizer), tokenizer)


@pytest.fixture
def expected_weights(_expected_weights):
    """Those of the given rollouts' tokens under `model` and the default settings."""
    return copy.deepcopy(_expected_weights)
