"""Every documented value of every field of BARL's, from training to the page."""

import math

import numpy as np
import pytest
from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.credit import CREDITS
from barl_trl.inspector.derived import derive
from barl_trl.trainer.config import choices_of
from barl_trl.trainer.records import FOLDER, file_name, read_metadata, read_records

from .rollouts import config

OPEN = {
    "max_completion_length": [24, 48],
    "vllm_importance_sampling_mode": ["token_truncate", "sequence_mask", "token_mask"],
    "prompts_per_rollout_batch": [None, 1],
    "rollouts_per_optimizer_step": [None, 4],
    "step_size": [128, 8],
    "elicitation": [BARLConfig.elicitation, "\nSo it is \\boxed"],
    "max_answer_chars": [64, 20],
    "max_hypotheses": [None, 2],
    "consistency_beta": [1.0, 0.0, math.inf],
    "plausibility_temperature": [1.0, 0.5],
    "scoring_max_tokens": [None, 4096],
    "hypotheses_column": [None, "numbers"],
    "prior_column": [None, "prior"],
}
"""Values of the fields whose types name none."""
OPTIONS = {
    "barl": [{"outcome_mode": "hypothesis"}],
    "progress": [{"progress_space": "log"}],
    "information_gain": [{"progress_space": "log"}, {"gain_normalization": "separate"}],
    "gae": [{"gae_lambda": 0.0}],
    "gae_posterior": [{"gae_lambda": 0.5}],
    "belief_critic": [{"gae_lambda": 0.0, "bootstrap_cut_off": False}],
    "bayes": [{"information_weight": 0.5}],
}


def runs():
    """Yields settings of runs in which every value occurs, with a credit that takes it."""
    types = BARLConfig.__annotations__
    left = {name: [*OPEN.get(name, choices_of(kind))] for name, kind in types.items()}
    credits = [(name, one) for name in CREDITS for one in ({}, *OPTIONS.get(name, []))]
    while any(left.values()) or credits:
        credit, options = credits.pop(0) if credits else ("barl", {})
        chosen = {name: values.pop(0) for name, values in left.items() if values}
        yield chosen | {"credit": credit, "credit_options": options}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", [*runs()], ids=lambda settings: settings["credit"])
def test_every_value_goes_from_training_to_the_page(tmp_path, model, tokenizer, settings):
    if settings.get("belief") == "both" and settings["credit"] not in ("barl", "bayes"):
        settings = settings | {"belief": "task"}
    if settings.get("prior_column"):
        settings = settings | {"hypotheses_column": "numbers"}
    args = config(tmp_path, **{"per_device_train_batch_size": 4} | settings, log_beliefs=True)
    rows = [
        {"prompt": f"{n}+1?", "solution": "2", "numbers": ["1", "2", "3"], "prior": [1.0, 2.0, 3.0]}
        for n in range(2)
    ]
    made = BARLTrainer(model, "math_verify", args, Dataset.from_list(rows), None, tokenizer)
    made.train()
    metadata = read_metadata(tmp_path / FOLDER / file_name(0))
    assert metadata["settings"] == args.settings
    records = [*read_records(tmp_path / FOLDER)]
    for record, found in zip(records, derive(records, metadata), strict=True):
        computed = found.methods.get(settings["credit"])
        if computed is not None and record["step_values"]:
            np.testing.assert_allclose(computed, record["step_values"], atol=1e-3)
