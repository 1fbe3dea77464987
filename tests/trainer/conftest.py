import copy

import pytest

from ..distributed.launching import launch
from ..tiny import tiny_model
from . import by_hand, credit_worker


@pytest.fixture(scope="session")
def _expected_weights(tokenizer):
    return by_hand.weights(tiny_model(tokenizer), tokenizer)


@pytest.fixture
def expected_weights(_expected_weights):
    """Those of the given rollouts' tokens under `model` and the default settings."""
    return copy.deepcopy(_expected_weights)


@pytest.fixture(scope="session")
def both_in(tmp_path_factory):
    """The folder of two processes."""
    folder = tmp_path_factory.mktemp("both")
    launch("cpu/ddp.yaml", "tests.trainer.credit_worker", str(folder))
    return folder


@pytest.fixture(scope="session")
def one_in(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    credit_worker.main(str(folder))
    return folder
