"""Checkpoints of a training, and the verdict on arms at them; both made small."""

from itertools import islice

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.report.json_files import read_json
from barl_trl.synthetic.search import TINY_MODEL_DIR
from experiments.credit.arms import ARMS
from experiments.credit.batches import rollout_batch
from experiments.credit.gradients.judge import Judgement
from experiments.credit.gradients.sketches import Sketch, arm_gradients
from experiments.credit.search import checkpoints
from experiments.credit.search import runs as search_runs
from experiments.credit.search.checkpoints import judge_into, run_into
from experiments.credit.search.runs import CONDITIONS, SearchCondition, search_task

QUICK = SearchCondition(3, 24, {"accuracy": (3, 24)}, steps=1)
JUDGEMENT = Judgement(batches=3, prompts=2, group_size=2, continuations=0, parameters="norm")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of a training of one step, and what was judged at its checkpoint."""
    folder = tmp_path_factory.mktemp("judged")
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(CONDITIONS, "standard", QUICK)
        patched.setattr(search_runs, "EVALUATED", 4)
        patched.setattr(checkpoints, "JUDGEMENT", JUDGEMENT)
        run_into(folder / "barl.json", "barl")
        late = str(folder / "barl" / "step-1")
        for name, model in (("first", str(TINY_MODEL_DIR)), ("late", late), ("again", late)):
            judge_into(folder / f"gradients-{name}.json", model, "standard", ("progress", "grpo"))
        yield folder


def test_an_arm_is_trained_and_its_checkpoints_are_beside_its_file(trained):
    record = read_json(trained / "barl.json")
    told = (record["condition"], record["arm"], record["seed"])
    assert told == ("standard", "barl", checkpoints.SEED)
    assert [entry["step"] for entry in record["evaluations"]] == [0, 1]
    assert [path.name for path in (trained / "barl").iterdir()] == ["step-1"]


def test_a_verdict_compares_the_arms_with_grpo(trained):
    rows = read_json(trained / "gradients-late.json")
    assert [row["arm"] for row in rows] == ["grpo", "progress"]
    assert {row["model"] for row in rows} == {"gradients-late"}
    assert rows[0].keys() >= {"bias", "quality", "gain", "beyond_control", "tokens"}


@pytest.mark.parametrize("name", ["first", "late"])
def test_the_checkpoint_is_judged_on_problems_of_the_condition(trained, name):
    folder = {"first": TINY_MODEL_DIR, "late": trained / "barl" / "step-1"}[name]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    stream = search_runs.training_problems(tokenizer, QUICK, checkpoints.SEED + 1)
    arms = {"progress": ARMS["progress"]}
    batch = rollout_batch(
        model,
        search_task(tokenizer, QUICK.tokens),
        list(islice(stream, 2)),
        group_size=2,
        arms=arms.values(),
        generator=torch.Generator().manual_seed(0),
    )
    found = torch.load(trained / f"gradients-{name}" / "batch-0.pt")["gradients"]
    for kind, gradient in arm_gradients(model, Sketch(model, "norm"), batch, arms).items():
        torch.testing.assert_close(found[kind], gradient)


def test_the_same_checkpoint_has_the_same_verdict_and_another_has_another(trained):
    verdicts = [trained / f"gradients-{name}.json" for name in ("first", "late", "again")]
    first, late, again = ([row["tokens"] for row in rows] for rows in map(read_json, verdicts))
    assert repr(late) == repr(again) != repr(first)


@pytest.mark.parametrize("changed", ["model", "condition"])
def test_what_is_judged_is_not_taken_for_another(trained, monkeypatch, changed):
    for name in ("standard", "cut_off"):
        monkeypatch.setitem(CONDITIONS, name, QUICK)
    monkeypatch.setattr(checkpoints, "JUDGEMENT", JUDGEMENT)
    model = str(TINY_MODEL_DIR) if changed == "model" else str(trained / "barl" / "step-1")
    condition = "cut_off" if changed == "condition" else "standard"
    with pytest.raises(ValueError, match="output_dir must be empty or of the same settings"):
        judge_into(trained / "gradients-late.json", model, condition, ("progress", "grpo"))
