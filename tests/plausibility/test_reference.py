"""Rows are compared with the oracle's values, and with the noise of one rounding."""

import torch

from barl_trl.plausibility.checks.reference import PROBE_TOKENS, reference

from .cases import EDGE_CASES, ELICITATION
from .models import make
from .oracle import oracle

ROLLOUT = EDGE_CASES["usual"]


def known(model, rollout=ROLLOUT):
    with torch.no_grad():
        return reference(model, rollout, ELICITATION, 4096)


def test_the_values_are_those_of_each_state_and_answer_alone():
    model = make("qwen2")
    found = known(model)
    (probe,) = found.probes
    assert probe.state_positions == [7, 23, 40]
    assert [answer.token_ids for answer in probe.answers] == [
        *(answer.token_ids for answer in ROLLOUT.answers),
        ROLLOUT.token_ids[-PROBE_TOKENS:],
    ]
    for (_, state, hypothesis), value in oracle(model, [probe], "sum").items():
        torch.testing.assert_close(found.logps[state, hypothesis].sum().item(), value)


def test_the_noise_is_that_of_one_rounding_and_the_model_is_left_as_it_was():
    model = make("qwen2")
    exact = known(model)
    assert 0 < exact.noise < 1e-6  # nats; float32 rounds to 6e-8 of a number
    assert 2**12 < known(model.to(torch.bfloat16)).noise / exact.noise < 2**20  # 2**16 as coarse
    assert known(model.float()).noise < 2 * exact.noise


def test_there_are_answers_only_where_the_model_has_positions_for_them():
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4}
    model = make("gpt2", **sizes, max_position_embeddings=40 + len(ELICITATION) + 5)
    assert [len(answer.token_ids) for answer in known(model).probes[0].answers] == [5, 4, 5]


def test_a_process_without_rollouts_joins_in():
    found = known(make("qwen2"), None)
    assert found.probes == [] and found.logps.numel() == 0 and found.noise == 0
