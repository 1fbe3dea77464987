"""`python -m experiments.inquiry` as users start it, in short; and what its report computes."""

import json
import math

import pytest
from scipy import stats

from experiments.inquiry import report
from experiments.inquiry.games import CONDITIONS, make_task
from experiments.inquiry.parts import GRID, PARTS

from ..running import experiment

ARMS_RUN = ("grpo", "bayes-1", "rescaled")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inquiry")
    options = ["--parts", "number", "--arms", *ARMS_RUN, "--seeds", 2, "--quick"]
    done = experiment("inquiry", *options, "--output_dir", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "quick: report.md" in " ".join(done.stdout.split())
    return folder / "quick"


def test_it_tunes_every_arm_on_another_seed_and_then_trains_it(folder):
    tuned = sorted(path.name for path in (folder / "number" / "tuning").iterdir())
    assert tuned == sorted(f"{a}-{n}-100.json" for a in ARMS_RUN for n in range(len(GRID)))
    trained = sorted(path.name for path in (folder / "number" / "many").iterdir())
    assert trained == sorted(f"{a}-tuned-{seed}.json" for a in ARMS_RUN for seed in (1, 2))
    record = json.loads((folder / "number" / "many" / "bayes-1-tuned-1.json").read_text())
    assert [point["step"] for point in record["curve"]] == [*range(9)]
    # all arms begin with the same model on the same games
    other = json.loads((folder / "number" / "many" / "grpo-tuned-1.json").read_text())
    assert other["curve"][0] == record["curve"][0]


def test_the_report_has_a_row_for_each_arm_and_what_is_possible(folder):
    page = (folder / "report.md").read_text()
    assert "Bayes-optimal policy 100.0 %" in page and "guessing at once 6.2 %" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[2:5]] == [
        "| GRPO",
        "| Bayes return, c = 1",
        "| control: RLOO, steps rescaled",
    ]


def test_what_is_done_is_not_done_again(folder):
    path = folder / "number" / "many" / "grpo-tuned-1.json"
    before = path.stat().st_mtime_ns
    options = ["--parts", "number", "--arms", *ARMS_RUN, "--seeds", 2, "--quick"]
    assert experiment("inquiry", *options, "--output_dir", folder.parent).returncode == 0
    assert path.stat().st_mtime_ns == before


def runs(*accuracies):
    return [{"final": {"accuracy": accuracy}} for accuracy in accuracies]


def test_arms_are_compared_with_grpo_on_redrawn_secrets():
    fixed = {"grpo": runs(0.2, 0.3), "bayes-0.3": runs(0.5, 0.7)}
    grpo, bayes = report._without_redrawing(fixed, runs(0.4, 0.45))
    assert grpo.startswith("GRPO with one secret") and " by -17.5 points [" in grpo
    low, high = stats.t.interval(0.95, 1, loc=17.5, scale=stats.sem([10.0, 25.0]))
    assert bayes.endswith(f" by +17.5 points [{low:+.1f}, {high:+.1f}].")


def test_differences_are_paired_by_seed():
    gain, low, high, p = report._paired(runs(0.5, 0.7, 0.6), runs(0.4, 0.5, 0.55))
    gains = [10.0, 20.0, 5.0]
    mean = sum(gains) / 3
    error = math.sqrt(sum((g - mean) ** 2 for g in gains) / 2 / 3)
    assert gain == pytest.approx(mean)
    quantile = stats.t.ppf(0.975, 2)
    assert (low, high) == pytest.approx((mean - quantile * error, mean + quantile * error))
    assert p == pytest.approx(2 * stats.t.sf(mean / error, 2))


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_change_what_they_say(name):
    condition = CONDITIONS[name]
    task = make_task("number", condition, seed=3, count=200, tests=100)
    prompts = {row["prompt"][0]["content"] for row in task.rows}
    assert len(prompts) == (condition.num_prompts or len(prompts))
    assert (
        not prompts & {row["prompt"][0]["content"] for row in task.test_rows} or len(prompts) > 90
    )
    secrets = {row["solution"] for row in task.rows}
    tested = {row["solution"] for row in task.test_rows}
    assert bool(secrets & tested) is not condition.halves_secrets
    game = task.environment()
    assert game.inquiry.error_rate == (condition.error_rate or 0.0)
    assert game.redraws == condition.redraws
    assert ("prior" in task.rows[0]) == condition.has_wrong_prior
    assert len(task.rewards) == 1 + bool(condition.price)


def test_arms_that_read_the_rows_solution_are_left_out_where_it_is_not_the_truth():
    assert {"progress-model", "barl-task"} <= {*PARTS["number"].arms}
    assert not any(CONDITIONS[name].redraws for name in PARTS["number"].conditions)
    without_truth = {"grpo", "rloo", "bayes-0", "bayes-0.3", "bayes-1", "bayes-model"}
    assert {*PARTS["redrawn"].arms} == without_truth | {"rescaled", "information-alone"}
