"""Arms judged on the same batches: what is collected, also where it was stopped, and compared."""

import json
import math
from dataclasses import replace
from itertools import islice

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from barl_trl.synthetic.search import TINY_MODEL_DIR, problems
from experiments.credit.arms import ARMS
from experiments.credit.batches import TokenizedProblem, rollout_batch
from experiments.credit.gradients.judge import Judgement, collect, verdict
from experiments.credit.gradients.monte_carlo import monte_carlo_weights
from experiments.credit.gradients.quality import effects, gradient_quality
from experiments.credit.gradients.sketches import Sketch, arm_gradients, batch_gradients
from experiments.credit.search.runs import search_task

COMPARED = {name: ARMS[name] for name in ("grpo", "barl")}
JUDGEMENT = Judgement(
    batches=3, prompts=2, group_size=4, continuations=2, parameters="norm", seed=7
)
NAMES = {"reference", "arm/monte carlo"}
NAMES |= {f"{kind}/{arm}" for kind in ("arm", "control") for arm in COMPARED}
NAMES |= {f"effect/{quantity}" for quantity in ("answered", "tokens", "entropy")}


@pytest.fixture(scope="module")
def task():
    return search_task(AutoTokenizer.from_pretrained(TINY_MODEL_DIR), tokens=36)


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(TINY_MODEL_DIR)


def search_problems(task):
    for problem in problems(0, num_candidates=3):
        yield TokenizedProblem(task.tokenizer(problem.prompt)["input_ids"], problem.solution)


def collected(model, task, folder, judgement=JUDGEMENT, *, arms=COMPARED, **changes):
    settings = {"about": {"model": "tiny"}, "advance": lambda: None} | changes
    return collect(model, task, search_problems(task), arms, judgement, folder, **settings)


@pytest.fixture(scope="module")
def whole(model, task, tmp_path_factory):
    """A folder with all batches, and what they are."""
    folder = tmp_path_factory.mktemp("judged") / "new" / "tiny"
    return folder, collected(model, task, folder)


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of that folder."""
    for path in whole[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_equal(found, expected):
    for batch, other in zip(found, expected, strict=True):
        assert batch["gradients"].keys() == other["gradients"].keys()
        for name, gradient in batch["gradients"].items():
            assert torch.equal(gradient, other["gradients"][name])
        assert {k: v for k, v in batch.items() if k != "gradients"} == {
            k: v for k, v in other.items() if k != "gradients"
        }


# Collected


def test_gradients_are_those_of_the_batchs_own_problems_and_luck(whole, model, task):
    _, batches = whole
    for number in (0, 2):
        chosen = list(islice(search_problems(task), 2 * number, 2 * number + 2))
        generator = torch.Generator().manual_seed(70_000 + number)
        batch = rollout_batch(
            model, task, chosen, group_size=4, arms=COMPARED.values(), generator=generator
        )
        sketch = Sketch(model, "norm")
        expected = arm_gradients(model, sketch, batch, COMPARED)
        truths = [problem.solution for problem in chosen for _ in range(4)]
        settings = {"number": 2, "generator": generator}
        known = monte_carlo_weights(model, task, batch, truths, **settings)
        expected |= batch_gradients(model, sketch, batch, {"arm/monte carlo": known})
        for name, gradient in batches[number]["gradients"].items():
            torch.testing.assert_close(gradient, expected[name])
        mask = batch.token_mask
        for name, arm in COMPARED.items():
            pair = torch.stack([batch.token_weights(arm)[mask], known[mask]])
            correlation = torch.corrcoef(pair)[0, 1].item()
            assert batches[number]["correlation"][name] == pytest.approx(correlation, abs=1e-4)
        assert batches[number]["reward"] == batch.outcomes.mean()


def test_the_model_is_judged_without_dropout_and_progress_is_told(folder, model, task):
    model.train()
    advanced = []
    collected(model, task, folder, advance=lambda: advanced.append(None))
    assert not model.training
    assert len(advanced) == 3


def test_without_continuations_nothing_is_known_of_values(model, task, tmp_path):
    few = replace(JUDGEMENT, continuations=0, batches=1)
    [batch] = collected(model, task, tmp_path, few)
    assert batch["gradients"].keys() == NAMES - {"arm/monte carlo"}
    assert batch["correlation"] == {}


def test_weights_that_do_not_vary_have_no_correlation(model, task, tmp_path):
    """A completion of one token answers nothing: all outcomes are 0, and so are GRPO's weights."""
    hopeless = replace(task, max_new_tokens=1)
    [batch] = collected(model, hopeless, tmp_path, replace(JUDGEMENT, batches=1))
    assert batch["reward"] == 0
    assert batch["correlation"] == {"grpo": None, "barl": None}


# Stopped, and started again


def test_a_batch_that_is_missing_is_made_again_and_others_are_kept(folder, whole, model, task):
    before = contents(folder)
    times = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / "batch-1.pt").unlink()
    check_equal(collected(model, task, folder), whole[1])
    assert contents(folder).keys() == before.keys()
    for name in before.keys() - {"batch-1.pt"}:
        assert (folder / name).read_bytes() == before[name]
        assert (folder / name).stat().st_mtime_ns == times[name]


@pytest.mark.parametrize(
    "changes",
    [
        {"judgement": replace(JUDGEMENT, seed=8)},
        {"arms": COMPARED | {"barl": ARMS["barl, sum"]}},
    ],
)
def test_a_folder_with_batches_of_other_settings_is_refused(folder, model, task, changes):
    before = contents(folder)
    message = "output_dir must be empty or of the same settings, got .*: it has batches of others"
    with pytest.raises(ValueError, match=message):
        collected(model, task, folder, **changes)
    assert contents(folder) == before


def test_a_mistake_before_the_first_batch_can_be_mended(model, task, tmp_path):
    few = replace(JUDGEMENT, batches=1)
    with pytest.raises(ValueError, match="parameters must match the name of a parameter"):
        collected(model, task, tmp_path, replace(few, parameters="decoder"))
    (tmp_path / "judgement.json").write_text("of a run that was killed before its first batch")
    assert len(collected(model, task, tmp_path, few)) == 1
    assert json.loads((tmp_path / "judgement.json").read_text())["parameters"] == "norm"


# Compared


def test_rows_are_made_of_the_gradients_of_all_batches():
    torch.manual_seed(0)
    names = NAMES - {"arm/monte carlo"}
    true = torch.linspace(0, 1, 30)
    batches = [
        {
            "gradients": {name: true + 0.3 * torch.randn(30) for name in sorted(names)},
            "correlation": {"grpo": correlation, "barl": None},
        }
        for correlation in (0.25, None, 0.75, 0.5)
    ]
    stacked = {name: torch.stack([b["gradients"][name] for b in batches]) for name in names}
    rows = {row["arm"]: row for row in verdict(batches)}
    for arm, row in rows.items():
        own, reference = stacked[f"arm/{arm}"], stacked["reference"]
        compared = gradient_quality(own, reference, stacked["arm/grpo"])
        beyond = gradient_quality(own, reference, stacked[f"control/{arm}"]).gain
        quantities = {name: stacked[f"effect/{name}"] for name in ("answered", "entropy", "tokens")}
        expected = compared._asdict() | {"beyond_control": beyond}
        expected |= effects(own, quantities, reference)
        assert {name: row[name] for name in expected} == {n: [*e] for n, e in expected.items()}
        assert not any(map(math.isnan, row["quality"]))
    assert rows["grpo"]["correlation"] == 0.5
    assert rows["barl"]["correlation"] is None
    assert rows["grpo"]["gain"] == [0, 0] != rows["barl"]["gain"]
