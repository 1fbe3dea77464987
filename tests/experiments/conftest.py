from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What only a clone runs is tested with the slow tests, but for what calls transformers."""
    for item in items:
        if HERE in item.path.parents and item.path.name != "test_sampling.py":
            item.add_marker(pytest.mark.slow)
