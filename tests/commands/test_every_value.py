"""Every documented value of every field of BARL's, from training to the page and the analysis."""

import json
from typing import get_type_hints

import numpy as np
import pytest
from barl_trl.commands.analyze.values import SCORING_FIELDS
from barl_trl.report.inspector.derived import derive
from barl_trl.trainer.barl_fields import BARLFields, barl_fields, choices_of

from barl_trl import cli
from barl_trl.credit import CREDITS
from barl_trl.trainer.records import FOLDER, file_name, read_metadata, read_records

from ..paths import ROOT

OPEN = {
    "max_completion_length": [24, 48],
    "vllm_importance_sampling_mode": ["token_truncate", "sequence_mask", "token_mask"],
    "prompts_per_rollout_batch": [None, 1],
    "rollouts_per_optimizer_step": [None, 4],
    "step_size": [128, 8],
    "elicitation": [BARLFields.elicitation, "\\nSo it is \\\\boxed"],
    "credit": [*CREDITS, "barl_trl.credit.barl.progress"],
    "solution_column": ["solution", "solution"],
    "max_answer_chars": [64, 20],
    "max_hypotheses": [None, 2],
    "consistency_beta": [1.0, 0.0, float("inf")],
    "plausibility_temperature": [1.0, 0.5],
    "gae_lambda": [None, 0.0, 1.0],
    "bootstrap_cut_off": [None, True, False],
    "scoring_max_tokens": [None, 4096],
    "hypotheses_column": [None, "candidates"],
    "prior_column": [None, "weights"],
    "information_weight": [0.0, 0.5],
    "log_beliefs": [True],
}
"""Values of the fields whose types name none."""
OWN = {
    "outcome_mode": ["barl"],
    "progress_space": ["progress", "information_gain"],
    "gain_normalization": ["information_gain"],
    "information_weight": ["bayes"],
    "belief": ["barl", "bayes", "belief_critic", "gae_posterior"],
    "gae_lambda": ["gae", "gae_posterior", "belief_critic"],
    "bootstrap_cut_off": ["belief_critic"],
}
"""The credits that take a setting that not all take."""


def runs():
    """Yields settings of runs in which every value occurs, with a credit that takes it."""
    types = get_type_hints(BARLFields)
    left = {f.name: [*(OPEN.get(f.name) or choices_of(types[f.name]))] for f in barl_fields()}
    credits = left.pop("credit")
    while any(left.values()) or credits:
        needed = [credit for name, takers in OWN.items() if left[name] for credit in takers]
        credit = credits.pop(0) if credits else needed[0] if needed else "barl"
        yield {"credit": credit} | {
            name: values.pop(0)
            for name, values in left.items()
            if values and credit in OWN.get(name, [credit])
        }


def options(settings):
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*docs/credit.md", "ignore:.*answers? before", "ignore:.*their prior"
)
def test_every_value_goes_from_training_to_the_analysis(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problems = ROOT / "examples" / "problems.jsonl"
    data = f"mine={problems}"
    rows = [json.loads(line) for line in problems.read_text().splitlines()]
    lists = {"candidates": ["1", "2", "3"], "weights": [1.0, 2.0, 3.0]}
    listed = tmp_path / "listed.jsonl"
    listed.write_text("\n".join(json.dumps(row | lists) for row in rows))
    analyzed = set()
    for number, settings in enumerate(runs()):
        run = tmp_path / str(number)
        given = {name: value for name, value in settings.items() if value is not None}
        files = {"output_dir": str(run), "dataset_name": str(listed)}
        path = recipe(**files, max_steps=1, save_steps=1, log_beliefs=True)
        cli.main(["train", "--config", path, *options(given)])
        metadata = read_metadata(run / FOLDER / file_name(0))
        assert {name: metadata["settings"][name] for name in given} == given
        records = [*read_records(run / FOLDER)]
        for record, found in zip(records, derive(records, metadata), strict=True):
            computed = found.methods.get(metadata["settings"]["credit"])  # not of one's own
            if computed is not None and record["step_values"]:
                np.testing.assert_allclose(computed, record["step_values"], atol=1e-3)
        cli.main(["inspect", str(run)])
        scoring = {name: value for name, value in given.items() if name in SCORING_FIELDS}
        if analyzed >= {*map(str, scoring.items())}:
            continue
        analyzed |= {*map(str, scoring.items())}
        grading = ["--extraction", settings.get("extraction", "boxed")]
        evaluated, values = f"evaluated{number}", f"values{number}"
        command = ["evaluate", "--model", str(run), "--benchmarks", data, "--limit", "2"]
        cli.main([*command, "--max_tokens", "16", "--output_dir", evaluated, *grading])
        command = ["analyze", "values", evaluated, "--output_dir", values]
        cli.main([*command, *options(scoring), *grading])
        cli.main(["inspect", values])
