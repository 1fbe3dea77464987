import gc
import json
import os
import signal
from contextlib import ExitStack

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # also of processes: tests run beside each other
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import pytest
import torch
import yaml
from hypothesis import settings

from .paths import ROOT
from .preloaded import ADDRESS, server
from .tiny import tiny_model, tiny_tokenizer

# a shell's background job ignores Ctrl-C, and so would the processes that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "any machine", deadline=None, max_examples=50
)  # no test asserts wall-clock time
settings.load_profile("any machine")

RECIPE = {
    **{"use_cpu": True, "bf16": False, "learning_rate": 1.0e-3, "disable_tqdm": True},
    **{"per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 16},
    **{"step_size": 8, "max_steps": 2, "save_steps": 1, "logging_steps": 1},
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than there are cores: a quarter of the time tests wait for processes."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_configure(config):
    """One server of processes for all workers: they have its address from the first process."""
    if ADDRESS not in os.environ:
        stack = ExitStack()
        os.environ.update(stack.enter_context(server()))
        config.add_cleanup(stack.close)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _imports_are_no_garbage():
    """Every end of training collects garbage: a third of a second, if it searches all modules."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        yield


@pytest.fixture
def write(tmp_path):
    """Writes a file of rows, or of lines as they stand; returns its path."""

    def write(name, *rows):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    return write


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture
def model(tokenizer):
    return tiny_model(tokenizer)


@pytest.fixture(scope="session")
def model_path(tokenizer, tmp_path_factory):
    """A local model folder, as a user has it."""
    path = tmp_path_factory.mktemp("tiny-qwen2")
    tiny_model(tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture
def recipe(tmp_path, model_path):
    """Writes a recipe of two short steps, with `settings` changed."""

    def write(**settings):
        path = tmp_path / "recipe.yaml"
        values = {
            "model_name_or_path": model_path,
            "dataset_name": str(ROOT / "examples" / "problems.jsonl"),
            "output_dir": str(tmp_path / "out"),
        }
        path.write_text(yaml.safe_dump(RECIPE | values | settings))
        return str(path)

    return write
