"""The installed transformers fulfils the contract, and what breaks it is told early."""

from pkgutil import resolve_name

import pytest

from barl_trl import BARLConfig
from barl_trl.evaluation.decoding import Drawing
from barl_trl.evaluation.generation import Decoding, TransformersBackend
from barl_trl.trainer.tested_versions import check_transformers, check_versions
from barl_trl.trainer.transformers_contract import FUNCTIONS, changes


@pytest.fixture(autouse=True)
def _unchecked():
    """As in a new process."""
    checks = check_transformers, check_versions
    for check in checks:
        check.cache_clear()
    yield
    for check in checks:
        check.cache_clear()


def patched(monkeypatch, path, function):
    owner, _, name = path.rpartition(".")
    monkeypatch.setattr(resolve_name(owner), name, function)


def test_the_installed_transformers_fulfils_the_contract():
    assert changes() == []


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_function_with_other_parameters_is_named(monkeypatch, path):
    patched(monkeypatch, path, lambda another, /: None)
    (found,) = changes()
    assert found.startswith(f"{path} takes (another), not (")


@pytest.mark.parametrize("path", FUNCTIONS)
def test_it_is_refused_before_anything_is_trained_or_generated(monkeypatch, path, model_path):
    patched(monkeypatch, path, None)
    match = (
        f"^transformers must be as barl-trl relies on it, got trl .*: {path} is gone .*: leave out"
    )
    for make in (
        BARLConfig,
        lambda: TransformersBackend(model_path, Decoding([1], 8, Drawing(), 2)),
    ):
        with pytest.raises(ImportError, match=match):
            make()
