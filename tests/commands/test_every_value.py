"""Every documented value of every field of BARL's, from training to the page."""

import json
from typing import get_type_hints

import numpy as np
import pytest

from barl_trl.commands import cli
from barl_trl.credit import CREDITS
from barl_trl.inspector.derived import derive
from barl_trl.trainer.config import BARLConfig, choices_of, own_fields
from barl_trl.trainer.records import FOLDER, file_name, read_metadata, read_records

from ..paths import ROOT

OPEN = {
    "max_completion_length": [24, 48],
    "vllm_importance_sampling_mode": ["token_truncate", "sequence_mask", "token_mask"],
    "prompts_per_rollout_batch": [None, 1],
    "rollouts_per_optimizer_step": [None, 4],
    "step_size": [128, 8],
    "elicitation": [BARLConfig.elicitation, "\\nSo it is \\\\boxed"],
    "solution_column": ["solution"],
    "max_answer_chars": [64, 20],
    "max_hypotheses": [None, 2],
    "consistency_beta": [1.0, 0.0, float("inf")],
    "plausibility_temperature": [1.0, 0.5],
    "scoring_max_tokens": [None, 4096],
    "hypotheses_column": [None, "candidates"],
    "prior_column": [None, "weights"],
    "log_beliefs": [True],
    "overwrite_output_dir": [False, True],
    "allow_inexact_resume": [False, True],
}
"""Values of the fields whose types name none."""
CREDIT_OPTIONS = {
    "barl": [{"outcome_mode": "hypothesis"}],
    "progress": [{"progress_space": "log"}],
    "information_gain": [{"progress_space": "log"}, {"gain_normalization": "separate"}],
    "bayes": [{"information_weight": 0.5}],
    "gae": [{"gae_lambda": 0.5}],
    "gae_posterior": [{"gae_lambda": 0.0}],
    "belief_critic": [{"gae_lambda": 0.9}, {"bootstrap_cut_off": False}],
}
TAKE_BOTH = ("barl", "bayes", "belief_critic", "gae_posterior")


def runs():
    """Yields settings of runs in which every value occurs, with a credit that takes it."""
    types = get_type_hints(BARLConfig)
    names = [one.name for one in own_fields() if not one.name.startswith("credit_options")]
    left = {
        name: [*(OPEN.get(name) or choices_of(types[name]))] for name in names if name != "credit"
    }
    credits = [(credit, None) for credit in (*CREDITS, "barl_trl.credit.barl.progress")]
    credits += [(credit, given) for credit, several in CREDIT_OPTIONS.items() for given in several]
    while any(left.values()) or credits:
        credit, options = credits.pop(0) if credits else ("barl", None)
        takes = {name: values for name, values in left.items() if values}
        if credit not in TAKE_BOTH:
            takes.pop("belief", None)
        settings = {name: values.pop(0) for name, values in takes.items()}
        settings = {name: value for name, value in settings.items() if value is not None}
        yield {"credit": credit, **settings} | ({"credit_options": options} if options else {})


def words(settings):
    for name, value in settings.items():
        yield from (f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_value_goes_from_training_to_the_page(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = (ROOT / "examples" / "problems.jsonl").read_text().splitlines()
    lists = {"candidates": ["1", "2", "3"], "weights": [1.0, 2.0, 3.0]}
    (tmp_path / "listed.jsonl").write_text(
        "\n".join(json.dumps(json.loads(row) | lists) for row in rows)
    )
    few = {"max_steps": 1, "save_strategy": "no", "log_beliefs": True}
    for number, settings in enumerate(runs()):
        run = tmp_path / str(number)
        path = recipe(output_dir=str(run), dataset_name=str(tmp_path / "listed.jsonl"), **few)
        cli.main(["train", "--config", path, *words(settings)])
        metadata = read_metadata(run / FOLDER / file_name(0))
        kept = metadata["settings"]
        options = settings.pop("credit_options", {})
        assert {name: kept[name] for name in settings} == settings
        assert kept["credit_options"].items() >= options.items()
        records = [*read_records(run / FOLDER)]
        for record, found in zip(records, derive(records, metadata), strict=True):
            computed = found.methods.get(kept["credit"])  # not of one's own
            if computed is not None and record["step_values"]:
                np.testing.assert_allclose(computed, record["step_values"], atol=1e-3)
        cli.main(["inspect", str(run)])
        assert f"{len(records)} rollouts" in capsys.readouterr().out
