"""How many tokens a scoring pass may take, and that they take what is estimated."""

import weakref

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig

from barl_trl.plausibility.budget import (
    _tokens_that_fit,
    halved_together,
    scoring_bytes,
    scoring_token_budget,
    tokens_within,
)
from barl_trl.plausibility.queries import Answer, Rollout

from .cases import EDGE_CASES, ids
from .models import make
from .oracle import score

CONFIGS = {
    "dense": AutoConfig.for_model("qwen2"),
    "experts": AutoConfig.for_model("qwen3_moe"),
    "capped": AutoConfig.for_model("gemma2"),
}


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of all tensors that are made inside it and alive at the same time."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            if storage._cdata not in self.alive:
                self.alive[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, storage._cdata)
        self.peak = max(self.peak, sum(self.alive.values()))
        return result


def peak_of_a_pass(model):
    """Bytes that a pass takes at its peak, and the tokens of the pass."""
    answers = [Answer(ids(12, n)) for n in range(4)]
    rollouts = [Rollout(ids(200, n), [*range(40, 201, 20)], answers) for n in range(4)]
    score(model, rollouts)  # checks the model, in passes of their own
    with PeakMemory() as memory:
        num_tokens = score(model, rollouts).num_tokens
    return memory.peak, num_tokens


@pytest.mark.parametrize("wide", [{"intermediate_size": 2048}, {"vocab_size": 20000}])
def test_a_pass_takes_what_is_estimated(wide):
    """Its peak is inside an MLP or inside the head, whichever is wide."""
    model = make("qwen2", **wide)
    peak, num_tokens = peak_of_a_pass(model)
    estimate = scoring_bytes(model.config, model.dtype, num_tokens)
    assert peak == pytest.approx(estimate, rel=0.15)


@given(st.sampled_from(sorted(CONFIGS)), st.integers(1, 1 << 36))
def test_no_pass_that_fits_is_larger(name, num_bytes):
    num_tokens = tokens_within(CONFIGS[name], torch.bfloat16, num_bytes)
    needed = [scoring_bytes(CONFIGS[name], torch.bfloat16, num_tokens + n) for n in (0, 1)]
    assert needed[1] > num_bytes
    assert needed[0] <= num_bytes or num_tokens == 1


def test_by_default_a_pass_takes_a_quarter_of_the_free_memory_at_most(model):
    rollouts = [EDGE_CASES["usual"]]
    assert score(model, rollouts).max_tokens == 4096  # what is fast on a CPU
    bytes_per_token = psutil.virtual_memory().available // 4 // 1000
    model.config.intermediate_size = bytes_per_token // (3 * model.dtype.itemsize)
    assert score(model, rollouts).max_tokens == pytest.approx(1000, rel=0.5)
    with torch.autocast("cpu", torch.bfloat16):  # numbers of half the size
        assert scoring_token_budget(model) == pytest.approx(2000, rel=0.5)


def test_with_sharded_parameters_a_budget_is_halved_until_it_fits_twice(sharded, caplog):
    assert halved_together(make("qwen2"), 1 << 60) == 1 << 60  # no process waits for another
    assert halved_together(sharded, 64) == 64
    assert not caplog.records
    budget = halved_together(sharded, 3 << 60)
    assert budget == pytest.approx(_tokens_that_fit(sharded, 0.5) * 0.75, rel=0.5)
    assert (3 << 60) % budget == 0
    assert [record.args for record in caplog.records] == [(budget,)]
